import json

from safetensors import safe_open

from scripts.hub_folders import main


def test_every_network_gets_a_folder_that_a_hub_understands(tmp_path, capsys):
    main(tmp_path)
    folders = sorted(folder.name for folder in tmp_path.iterdir())
    assert {"coverlock-octave", "coverlock-mbrs"} <= set(folders)
    for folder in tmp_path.iterdir():
        _, matter, text = (folder / "README.md").read_text().split("---\n", 2)
        assert "license: apache-2.0" in matter
        assert "library_name: coverlock-sdk" in matter
        assert text.startswith(f"# {folder.name.removeprefix('coverlock-')}\n")
        json.loads((folder / "config.json").read_text())
        with safe_open(folder / "model.safetensors", framework="numpy") as weights:
            assert weights.keys()
