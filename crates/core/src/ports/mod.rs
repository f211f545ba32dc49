//! The ports: what the services ask of the outside. One method is one use case is one transaction;
//! no transaction object leaks out. Each promise is proved by a case in the conformance crate.

mod accounts;
mod attempts;
mod bulks;
mod check_services;
mod clock;
mod connector;
mod dead_letters;
mod doubts;
mod engine;
mod error;
mod flows;
mod interventions;
mod lanes;
mod page;
mod plans;
mod queue;
mod records;
mod settings;
mod status_checks;
mod timetables;

pub use accounts::{Accounts, AuditEntry, AuditWanted, NewAudit, Total};
pub use attempts::{
    Attempts, CallGiven, CallTurn, CallWanted, History, LONGEST_SEND, NewTurn, Past, Settlement,
    StatusMove, Then, Turn, TurnBlock, TurnsWanted, busy_for, disproof,
};
pub use bulks::{
    BulkLine, BulkState, BulkSum, BulkView, Bulks, ChunkEnd, ChunkId, Closed, KnownBulk, LineError,
    NewChunk,
};
pub use check_services::{CallError, CheckServices, GatewayAnswer, TakeTurn};
pub use clock::{Boot, Era, Reading, SharedClock};
pub use connector::{Connector, Health, Heard, Line, NoLine, Permit, Profile, Request};
pub use dead_letters::{DeadLetter, DeadLetters, cannot_replay};
pub use doubts::{
    AWAITED, AtRisk, DoubtOrder, Doubts, IN_DOUBT, ItemInDoubt, Resolution, Resolved, sent_since,
};
pub use engine::{Engine, FlowView, Memo, Start, Started, Unreachable};
pub use error::{StoreError, StoreResult};
pub use flows::{DueFlow, DueFlows, FlowEnd, Flows, JournalEntry, NewFlow};
pub use interventions::{Found, Intervened, Interventions, TOO_LATE};
pub use lanes::{CalendarInForce, Lanes, WindowUse};
pub use page::{Bookmark, MOST_LOOKED_AT, Page, rows_needed};
pub use plans::{Plans, Recounted, Replanned, Spot, Waiting};
pub use queue::{
    Admission, Adrift, Claim, Claimed, DueLanes, NewItem, NewRecord, Placed, Queue, StartRecord,
};
pub use records::{AttemptView, ItemView, OwnedWanted, RecordLine, Records, RecordsWanted};
pub use settings::{Author, NamedSetting, Setting, SettingKind, Settings};
pub use status_checks::{
    CheckEnd, CheckLine, CheckPhase, CheckView, EndedParts, GatewayView, Part, PartList,
    StatusChecks,
};
pub use timetables::{Far, Tight, Timetables, Unsent, UnsentOnLane, cut_near};

/// Everything a store offers.
pub trait Store:
    SharedClock
    + Queue
    + Interventions
    + Doubts
    + DeadLetters
    + Lanes
    + Plans
    + Timetables
    + Attempts
    + Flows
    + Records
    + Bulks
    + StatusChecks
    + Settings
    + Accounts
{
}
impl<T> Store for T where
    T: SharedClock
        + Queue
        + Interventions
        + Doubts
        + DeadLetters
        + Lanes
        + Plans
        + Timetables
        + Attempts
        + Flows
        + Records
        + Bulks
        + StatusChecks
        + Settings
        + Accounts
{
}
