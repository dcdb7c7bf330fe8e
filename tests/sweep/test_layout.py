from tfzoo.sweep.plan.layout import MAX_NAME_BYTES, combine, file_name, label, name

AXES = {
    "model.norm": {"layer": {"model.norm": "layer"}, "rms": {"model.norm": "rms"}},
    "width": {
        "one head": {"model.heads": 1, "model.head_dim": 64},
        "four": {"model.heads": 4},
        "two": {"model.heads": 2},
    },
}


def test_a_label_is_what_a_person_would_write():
    values = ["rms", {"name": "rms", "eps": 1e-6}, 1e-3, 4, True, None, [0.9, 0.98]]
    assert [label(value) for value in values] == [
        "rms",
        "rms eps=1e-06",
        "0.001",
        "4",
        "true",
        "null",
        "[0.9, 0.98]",
    ]


def test_a_grid_has_all_combinations_and_one_at_a_time_those_beside_the_baseline():
    assert len(list(combine(AXES, "grid", {}))) == 6
    found = list(combine(AXES, "one_at_a_time", {"model.norm": "rms", "width": "four"}))
    assert [tuple(one.values()) for one in found] == [
        ("rms", "four"),
        ("layer", "four"),
        ("rms", "one head"),
        ("rms", "two"),
    ]


def test_a_folder_is_named_after_the_settings_and_can_be_typed():
    assert name({"model.norm": "layer", "width": "one head"}) == "norm=layer,width=one_head"
    assert (
        name({"model.encoder.norm": "layer", "model.norm": "rms"})
        == "model.encoder.norm=layer,model.norm=rms"
    )
    assert file_name("../a b/c:*") == ".._a_b_c"


def test_long_names_are_cut_and_stay_apart():
    for letter in "x你":
        long = [name({"a": letter * 300 + end}) for end in "12"]
        assert long[0] != long[1]
        assert all(len(one.encode()) < MAX_NAME_BYTES + 20 for one in long)
