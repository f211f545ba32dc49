//! The ports: what the services ask of the outside. One method is one use case is one transaction;
//! no transaction object leaks out. Each promise is proved by a case in the conformance crate.

mod accounts;
mod amendments;
mod archive;
mod attempts;
mod bulks;
mod check_services;
mod clock;
mod connector;
mod day_troubles;
mod dead_letters;
mod doubts;
mod engine;
mod erasures;
mod error;
mod feed_source;
mod feeds;
mod flows;
mod health;
mod jobs;
mod lanes;
mod leadership;
mod lease;
mod lists;
mod needs_you;
mod operator_actions;
mod outbox;
mod page;
mod plans;
mod queue;
mod records;
mod requests;
mod rule_stops;
mod sessions;
mod settings;
mod status_checks;
mod storms;
mod timetables;

pub use accounts::{Accounts, AuditEntry, AuditWanted, NewAudit, Total};
pub use amendments::{Amendment, Amendments, CHANGED_MEANWHILE};
pub use archive::{
    Archive, ArchiveSizes, FoundIn, Known, KnownAsked, KnownContent, MoveWanted, Moved, Old,
    RestoredFor,
};
pub use attempts::{
    Attempts, CallGiven, CallTurn, CallWanted, History, LONGEST_SEND, NewTurn, Past, Settlement,
    StatusMove, Then, Turn, TurnBlock, TurnsWanted, busy_for, disproof,
};
pub use bulks::{
    BulkBucket, BulkLine, BulkOrigin, BulkSince, BulkState, BulkSum, BulkView, Bulks, ChunkBefore,
    ChunkEnd, ChunkId, ChunkToDo, ChunkTurn, ChunksBefore, Closed, FailingChunk, HELD_BACK,
    KnownBulk, LineError, MOST_BEFORE, NewChunk,
};
pub use check_services::{CallError, CheckServices, GatewayAnswer, TakeTurn};
pub use clock::{Boot, CLOCK_WAS_AHEAD, Era, Reading, SharedClock, WAS_SET_BACK};
pub use connector::{
    Connection, Connector, ExchangeResult, Health, Missed, NoConnection, Permit, Profile, Request,
};
pub use day_troubles::DayTroubles;
pub use dead_letters::{DeadLetter, DeadLetters, cannot_replay};
pub use doubts::{
    AWAITED, AtRisk, DoubtOrder, Doubts, IN_DOUBT, ItemInDoubt, Resolution, Resolved, sent_since,
};
pub use engine::{Engine, FlowView, Memo, Shown, Start, Started, Unreachable};
pub use erasures::{ErasureProgress, ErasureTrouble, ErasureView, Erasures, Purged};
pub use error::{StoreError, StoreResult};
pub use feed_source::{
    DeadRecord, FeedRecord, FeedSource, Fetched, Log, RecordAnswer, RecordReader, SourceError,
    SourceResult, Topic,
};
pub use feeds::{
    ChunksWaiting, Division, FeedBatch, FeedPause, FeedTrouble, FeedView, Feeds, Forgotten,
    HeldPartition, Holding, PartitionId, PartitionView, PartitionWish, ReadingAt, Share, Sought,
};
pub use flows::{DueFlow, DueFlows, FlowEnd, Flows, JournalEntry, NewFlow};
pub use health::{StoreConnections, StoreHealth};
pub use jobs::{
    AskedItem, BankSaid, CandidatesBy, CandidatesWanted, ITEMS_PER_CHUNK, JobResult, JobView, Jobs,
    NewJob, ResultsWanted, Worked,
};
pub use lanes::{CalendarInForce, Lanes, WindowUse};
pub use leadership::{Call, Leadership, NodeLine, Nodes, Showing, Term};
pub use lease::{LEASE, LEASES_AHEAD, latest_end};
pub use lists::{
    BesideWanted, ByTime, Counted, Found, FoundBy, ListKey, Lists, MOST_SORTED, USUAL_ENDS,
};
pub use needs_you::{
    Amount, HeldItem, MOST_COUNTED, MOST_LOOKED_UP, Need, NeedsYou, NewSeen, Pile, Seen, Worklists,
    WorklistsAsked,
};
pub use operator_actions::{
    ActionResult, ItemState, OperatorActions, TOO_LATE, refuses_another_key,
};
pub use outbox::{
    EventRecord, EventSink, MOST_EVENTS_COUNTED, Outbox, OutboxEvent, OutboxTrouble, OutboxView,
    Published, RelayHold, RetriedUpTo, SinkTrouble, TurnedOff,
};
pub use page::{MOST_LOOKED_AT, Page, PageFrom, PageToken, rows_needed};
pub use plans::{Plans, QueuePosition, Recounted, Replanned, Waiting};
pub use queue::{
    Admission, Claim, Claimed, DueLanes, NewItem, NewRecord, Orphaned, Placed, Queue, START_PAUSES,
    StartRecord, ToExecute,
};
pub use records::{
    AttemptView, FromArchive, ItemView, OwnedWanted, RecordLine, Records, RecordsWanted,
};
pub use requests::{
    Acceptance, FoundRequest, LOOK_AFTER, NewRequest, RETRIES, Refusal, RequestState, RequestView,
    Requests, RequestsWanted, Unplanned,
};
pub use rule_stops::{Judged, RuleStop, RuleStops, joined_rules, split_rules};
pub use sessions::{MOST_SESSIONS, NewSession, Sessions};
pub use settings::{Author, NamedSetting, Setting, SettingKind, Settings};
pub use status_checks::{
    CheckEnd, CheckLine, CheckPhase, CheckView, EndedParts, GatewayView, Part, PartList,
    StatusChecks,
};
pub use storms::{NewWatch, RefusedItem, Storm, StormPause, Storms, Suspicion, pause_reason};
pub use timetables::{Far, Tight, Timetables, Unsent, UnsentOnLane, cut_near};

/// Everything a store offers.
pub trait Store:
    SharedClock
    + Queue
    + OperatorActions
    + Jobs
    + Erasures
    + Amendments
    + Storms
    + Doubts
    + DeadLetters
    + NeedsYou
    + Lanes
    + Plans
    + Timetables
    + Attempts
    + Flows
    + Records
    + Lists
    + Requests
    + RuleStops
    + Bulks
    + Feeds
    + Outbox
    + StatusChecks
    + Settings
    + Sessions
    + Accounts
    + Archive
    + DayTroubles
    + StoreHealth
{
}
impl<T> Store for T where
    T: SharedClock
        + Queue
        + OperatorActions
        + Jobs
        + Erasures
        + Amendments
        + Storms
        + Doubts
        + DeadLetters
        + NeedsYou
        + Lanes
        + Plans
        + Timetables
        + Attempts
        + Flows
        + Records
        + Lists
        + Requests
        + RuleStops
        + Bulks
        + Feeds
        + Outbox
        + StatusChecks
        + Settings
        + Sessions
        + Accounts
        + Archive
        + DayTroubles
        + StoreHealth
{
}
