"""How Sphinx builds the site: `make docs`. Nothing is fetched; the pages are all of what the checkout says."""

import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE / "_ext"), str(HERE.parent / "src")]

from ergonet import __version__  # noqa: E402

project = "Ergonet"
author = "The Ergonet developers"
copyright = "2026, The Ergonet developers"  # noqa: A001
version = release = __version__

extensions = [
    "myst_nb",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.napoleon",
    "sphinx_copybutton",
    "sphinx_design",
    "sphinxcontrib.bibtex",
    "api_pages",
    "citation_keys",
]
exclude_patterns = ["_ext", "_templates", "results/README.md"]
templates_path = ["_templates"]
default_role = "py:obj"  # `name` in a docstring is a link where such a name is documented, and code elsewhere

myst_enable_extensions = ["colon_fence", "deflist", "substitution"]
myst_heading_anchors = 3
nb_execution_mode = "cache"
nb_execution_cache_path = str(HERE.parent / "build" / "docs" / "executed")
nb_execution_timeout = 120  # seconds a cell
nb_execution_raise_on_error = True
nb_merge_streams = True

autosummary_generate = True
autodoc_default_options = {
    "members": True,
    "exclude-members": "set_fit_request, set_predict_request, set_score_request",  # scikit-learn's, for its own pages
}
autodoc_inherit_docstrings = False  # what fulfills a contract is documented where the contract is
autodoc_member_order = "bysource"
autodoc_typehints_format = "short"
autoclass_content = "both"
napoleon_use_ivar = True
napoleon_use_rtype = False
python_maximum_signature_line_length = 80
bibtex_bibfiles = ["references.bib"]
bibtex_default_style = "keys"

html_theme = "pydata_sphinx_theme"
html_title = "Ergonet"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_copy_source = False
html_show_sourcelink = False
html_theme_options = {
    "header_links_before_dropdown": 6,
    "navbar_align": "left",
    "navigation_with_keys": False,
    "secondary_sidebar_items": ["page-toc"],
    "show_toc_level": 2,
    "footer_start": ["copyright"],
    "footer_end": [],
    "pygments_light_style": "a11y-high-contrast-light",
    "pygments_dark_style": "a11y-high-contrast-dark",
}
html_sidebars = {"index": [], "gallery": [], "references": []}
