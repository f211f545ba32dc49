//! The head of the report: the machine, the durability class and the command.

use anyhow::Result;

use super::super::server::{SETTINGS, Server};
use crate::arguments::Arguments;
use crate::report::machine;

pub(super) fn header(arguments: &Arguments, server: &Server) -> Result<String> {
    Ok(format!(
        "# PostgreSQL store\n\n\
         {command} Every cell of a run uses the same private server, through TCP on this machine; each has a \
         fresh database, which is vacuumed, analysed and checkpointed before the measured part begins. \
         WAL bytes and commits are the server's own counts (`pg_current_wal_insert_lsn`, \
         `pg_stat_database.xact_commit`) of the measured process from its start to its end. CPU and memory are \
         the client's alone.\n\n\
         Machine: {machine}, the server's files on {filesystem}, PostgreSQL {version} with {settings}, else its \
         defaults.\n\n\
         Durability class, unless a row says otherwise: `fsync=on`, `synchronous_commit=on`; acknowledged after \
         the flush of its commit.\n",
        command = machine::command(arguments),
        machine = machine::words()?,
        filesystem = server.filesystem,
        version = server.version,
        settings = SETTINGS.trim().replace(" = ", "=").replace('\n', ", "),
    ))
}
