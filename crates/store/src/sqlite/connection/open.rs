//! Opening a database file: lock it, bring its schema up to date, start the writer and the readers.
//! Whatever is wrong is one sentence that names the file and the remedy.

use std::fs::{File, OpenOptions, TryLockError};
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use rusqlite::config::DbConfig;
use rusqlite::functions::FunctionFlags;
use rusqlite::{Connection, ErrorCode};
use tollgate_core::ports::{StoreError, StoreResult};

use super::fault::Fault;
use super::reader::Readers;
use super::writer::Writer;
use crate::clock::Clock;
use crate::node::Node;
use crate::schema::{MADE_BY_ANOTHER_BUILD, Schema, Sums, ours};
use crate::sqlite::archive_files::ArchiveFiles;
use crate::sqlite::{Sqlite, SqliteOptions, SqliteStore};
use crate::store_on::StoreOn;

mod migrations {
    refinery::embed_migrations!("migrations/sqlite");
}

impl SqliteStore {
    pub fn open(options: SqliteOptions) -> StoreResult<Self> {
        let path = file_itself(&options.path).map_err(|e| explain(&options.path, e))?;
        let lock = lock_file(&path)?;
        let connection = prepare(&path, &options).map_err(|e| explain(&path, e))?;
        let fault = Fault::none_yet(&path);
        let clock = Clock::anchored_now(options.time.clone());
        tell_time(&connection, &clock).map_err(|e| explain(&path, e))?;
        let readers = Readers::open(&path, &clock, fault.clone());
        let readers = readers.map_err(|e| explain(&path, e))?;
        let writer = Writer::start(connection, clock.clone(), fault.clone());
        let writer = writer.map_err(|e| explain(&path, e))?;
        Ok(StoreOn(Sqlite {
            archive: ArchiveFiles::beside(&path),
            writer,
            readers,
            clock,
            fault,
            options,
            node: Node::default(),
            _lock: lock,
        }))
    }
}

/// Its owner alone reads and writes it. SQLite gives the files beside the database the same mode.
const OWNER_ONLY: u32 = 0o600;

/// The path without links, since two names of one file must meet at one lock. Creates the file if
/// there is none. An existing one is not opened: closing it again would end the locks that SQLite
/// holds on it, if this process has it open already.
fn file_itself(path: &Path) -> io::Result<PathBuf> {
    match path.canonicalize() {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            create(path)?;
            path.canonicalize()
        }
        found => found,
    }
}

pub(crate) fn create(path: &Path) -> io::Result<File> {
    OpenOptions::new()
        .create(true)
        .truncate(false)
        .write(true)
        .mode(OWNER_ONLY)
        .open(path)
}

fn prepare(path: &Path, options: &SqliteOptions) -> Result<Connection, Trouble> {
    let mut connection = Connection::open(path)?;
    let pages: u32 = connection.query_row("PRAGMA page_count", [], |row| row.get(0))?;
    if pages == 0 {
        // Pages that are freed later can then be given back a few at a time. A file that has a first page
        // could not be changed, and would be written to at each open.
        connection.pragma_update(None, "auto_vacuum", "INCREMENTAL")?;
    }
    connection.execute_batch(
        "PRAGMA journal_mode = WAL;
         PRAGMA synchronous = FULL;
         PRAGMA busy_timeout = 5000;
         PRAGMA temp_store = MEMORY;
         PRAGMA cache_size = -65536;
         PRAGMA wal_autocheckpoint = 4000;",
    )?;
    connection.set_prepared_statement_cache_capacity(128);
    keep_plans(&connection)?;
    migrate(&mut connection)?;
    if let Some(pages) = options.max_pages {
        connection.pragma_update(None, "max_page_count", pages)?;
    }
    Ok(connection)
}

/// The shared time, as a function of SQL under the name that it has on PostgreSQL.
pub(super) fn tell_time(connection: &Connection, clock: &Clock) -> rusqlite::Result<()> {
    let clock = clock.clone();
    connection.create_scalar_function("tg_now", 0, FunctionFlags::SQLITE_UTF8, move |_| {
        Ok(clock.now_us())
    })
}

fn migrate(connection: &mut Connection) -> Result<(), Trouble> {
    let runner = migrations::migrations::runner();
    match Schema::judge(&ours(&runner), &theirs(connection)?) {
        Schema::UpToDate => Ok(()),
        Schema::Behind => {
            let done = runner.run(connection);
            done.map(drop).map_err(|e| not_migrated(&e))
        }
        Schema::Newer => Err(Trouble::Newer),
        Schema::Another => Err(Trouble::Another),
    }
}

/// SQLite's own word, if it is behind the error.
fn not_migrated(error: &refinery::Error) -> Trouble {
    let source = std::error::Error::source(error);
    match source.and_then(|source| source.downcast_ref::<rusqlite::Error>()) {
        Some(sqlite) => Trouble::of(sqlite),
        None => Trouble::Other(error.to_string()),
    }
}

fn theirs(connection: &Connection) -> rusqlite::Result<Sums> {
    if !connection.table_exists(None, "refinery_schema_history")? {
        return Ok(Sums::new());
    }
    let applied = "SELECT version, checksum FROM refinery_schema_history";
    connection
        .prepare(applied)?
        .query_map([], |row| Ok((row.get(0)?, row.get(1)?)))?
        .collect()
}

/// Plans must not depend on bound values: clearing the bindings of such a statement, as the
/// statement cache does, expires its plan, and every execution would prepare it anew (measured:
/// 59 % of the writer's time, a third of the admissions).
pub(super) fn keep_plans(connection: &Connection) -> rusqlite::Result<()> {
    connection
        .set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_QPSG, true)
        .map(drop)
}

/// One process per file. The lock dies with the process, so a crash leaves nothing to clean up.
fn lock_file(path: &Path) -> StoreResult<File> {
    let mut name = path.as_os_str().to_owned();
    name.push(".lock");
    let file = create(Path::new(&name)).map_err(|e| explain(path, e))?;
    match file.try_lock() {
        Ok(()) => Ok(file),
        Err(TryLockError::WouldBlock) => Err(StoreError::Unavailable(format!(
            "{} is in use by another process; stop it, or use another file",
            path.display()
        ))),
        Err(TryLockError::Error(error)) => Err(explain(path, error)),
    }
}

/// Why a file cannot be used.
enum Trouble {
    /// Its schema holds a migration that this release does not know.
    Newer,
    /// Its schema was made by a migration of the same number and another content.
    Another,
    NotADatabase,
    Damaged,
    DiskFull,
    Other(String),
}

impl Trouble {
    fn of(error: &rusqlite::Error) -> Self {
        match error.sqlite_error_code() {
            Some(ErrorCode::NotADatabase) => Self::NotADatabase,
            Some(ErrorCode::DatabaseCorrupt) => Self::Damaged,
            Some(ErrorCode::DiskFull) => Self::DiskFull,
            _ => Self::Other(error.to_string()),
        }
    }
}

impl From<rusqlite::Error> for Trouble {
    fn from(error: rusqlite::Error) -> Self {
        Self::of(&error)
    }
}

impl From<io::Error> for Trouble {
    fn from(error: io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::StorageFull => Self::DiskFull,
            _ => Self::Other(error.to_string()),
        }
    }
}

fn explain(path: &Path, trouble: impl Into<Trouble>) -> StoreError {
    let file = path.display();
    StoreError::Unavailable(match trouble.into() {
        Trouble::Newer => format!(
            "{file} was written by a newer release of tollgate; start that release, or use another file"
        ),
        Trouble::Another => format!("{file} {MADE_BY_ANOTHER_BUILD}"),
        Trouble::NotADatabase => {
            format!("{file} is not a SQLite database; give the path of another file")
        }
        Trouble::Damaged => format!(
            "{file} is damaged; restore a backup, or repair a copy with `sqlite3 FILE .recover`"
        ),
        Trouble::DiskFull => {
            format!("{file} cannot be written: the disk is full; free some space, then start again")
        }
        Trouble::Other(error) => {
            format!("{file} cannot be opened: {error}; check the path and its permissions")
        }
    })
}
