"""What pyproject.toml cannot say: a wheel carries conf/, sweeps/ and the entry scripts, which its command runs."""

import shutil
from pathlib import Path

from setuptools import setup
from setuptools.command.build_py import build_py

HERE = Path(__file__).parent
CARRIED = ("conf/**/*.yaml", "sweeps/**/*.yaml", "src/*.py")


class BuildWithRepository(build_py):
    """Copies these files into the package's folder `repository` (asr_ablations/tools/files.py)."""

    def run(self) -> None:
        super().run()
        if self.editable_mode:  # the checkout itself is used then
            return
        for file in (file for pattern in CARRIED for file in HERE.glob(pattern)):
            target = Path(self.build_lib) / "asr_ablations" / "repository" / file.relative_to(HERE)
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(file, target)


setup(cmdclass={"build_py": BuildWithRepository})
