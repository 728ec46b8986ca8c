"""What `pip install .` packs, beyond what pyproject.toml says: of the plug-ins only those that git tracks.

The folders of plug-ins of a checkout also hold what its user works on.
"""

import subprocess
from pathlib import Path

from setuptools import setup
from setuptools.command.build_py import build_py

PLUGINS = ("sweeper.tasks", "sweeper.models", "sweeper.objectives", "sweeper.optimizers", "sweeper.experiments")


class TrackedPlugins(build_py):
    """Leaves files of plug-ins out that git does not track; without a repository everything is packed."""

    def find_package_modules(self, package, package_dir):
        """Package, name and file of every module of a package."""
        modules = super().find_package_modules(package, package_dir)
        here = Path(__file__).parent
        listed = subprocess.run(["git", "ls-files", "-z"], cwd=here, capture_output=True, text=True, check=False)
        if not package.startswith(PLUGINS) or listed.returncode or not (here / ".git").exists():
            return modules
        tracked = {(here / name).resolve() for name in listed.stdout.split("\0")}
        return [module for module in modules if Path(module[2]).resolve() in tracked]


setup(cmdclass={"build_py": TrackedPlugins})
