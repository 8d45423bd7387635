"""The paper, one name for every table and figure: `tempering reproduce NAME`.

`names` and `published` are plain data; `registry` says which cells a table or figure needs; `work` makes what is
missing, from `tasks`; `tables`, `figures` and `panels` show records, ours beside the paper's; `page` writes the docs.
"""
