-- A file of the archive: the items that ended in one month, one packed line of JSON each (core/src/archive.rs).
CREATE TABLE IF NOT EXISTS archived_item (
    item_type TEXT    NOT NULL,
    day       INTEGER NOT NULL,
    item_id   TEXT    NOT NULL,
    line      BLOB    NOT NULL,
    PRIMARY KEY (item_type, day, item_id)
) STRICT;
