// Eight schools in Stan, not centred: `tempering run eight_schools.stan --data eight_schools.json --out runs/schools`.
// The same density as numpyro_model.py beside it.
data {
  int<lower=0> J;
  array[J] real y;
  array[J] real<lower=0> sigma;
}
parameters {
  real mu;
  real<lower=0> tau;
  vector[J] theta_trans;
}
transformed parameters {
  vector[J] theta = mu + tau * theta_trans;
}
model {
  mu ~ normal(0, 5);
  target += cauchy_lpdf(tau | 0, 5) + log(2);  // a half-Cauchy, normalised
  theta_trans ~ std_normal();
  y ~ normal(theta, sigma);
}
