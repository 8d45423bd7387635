"""What tests share: checks on random numbers, and the plugin that lets the canary go first."""
