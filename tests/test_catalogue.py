"""catalogue.json is what the presets are, and notices when it is not."""

from tempering.lab import catalogue


def test_the_catalogue_is_that_of_the_presets():
    stored, made = catalogue.read(), catalogue.entries()
    assert stored == made, "run `python -m tempering.lab.catalogue`"
    made["mog40"]["evaluations"] += 1
    assert stored != made


def test_an_unknown_preset_names_the_nearest_and_the_other_way():
    words = catalogue.unknown_preset("mw23")
    assert "(did you mean mw32?)" in words and "my_model.py:log_density" in words and "mog40, mw32" in words
    assert "mog40-fd" not in words and "mog40-paper" not in words and len(words) < 400
