//! The services on the ports: the gate gives turns, the sender sends exactly once as far as money
//! is concerned, the dispatcher starts what is due, the sweeper finds what was left behind,
//! the planner knows when everything will run, the feeder takes files in chunk by chunk, the job runner acts
//! on many items, the relay publishes what has moved, the archiver moves what has ended.

mod age;
mod archiver;
mod batch;
mod breaker;
mod call_turns;
mod check_retention;
mod clock_watch;
mod count;
mod cycle;
mod decide;
mod dispatcher;
mod eraser;
mod every;
mod exchange;
mod exec_starts;
mod feeder;
mod feeds;
mod fence;
mod file_order;
mod follow;
mod forecaster;
mod gate;
mod interval;
mod item_types;
mod job;
mod job_runner;
mod lane_care;
mod lane_queue;
mod node_clock;
mod planner;
mod reconciler;
mod relay;
mod retention;
mod rounds;
mod sender;
mod shift;
mod sweeper;
mod unused;
mod why;

pub use age::ReadAt;
pub use archiver::{ArchivedType, Archiver, OldAges};
pub use batch::{Batched, ExecBatchFlow, ExecuteBatch, Executes, Inline, register_batch};
pub use call_turns::CallTurnAt;
pub use check_retention::CheckRetention;
pub use cycle::{Cycle, Round};
pub use dispatcher::Dispatcher;
pub use eraser::{Eraser, ExportedFiles, FileTrouble, IsSought};
pub use every::Every;
pub use feeder::{ChunkFlow, Feeder, Wake};
pub use feeds::{FeedOptions, FeedRunner, FeedStart};
pub use file_order::FileOrder;
pub use forecaster::{
    Forecaster, ItemForecast, LEAST_WAY, LEAST_WAY_ON_TEMPORAL, LaneForecast, Late, LateInBulk,
    foresee, foresee_line, meets_deadline, without_lane,
};
pub use gate::{Ask, Gate, GateOptions, NoTurn, Refusal};
pub use item_types::{
    ItemTypeInForce, SwitchedOff, change_item_type, exec_task_queues, item_type, switched_off,
};
pub use job::{IfDeclined, IfDone, Job, Moves, Sent};
pub use job_runner::{AskBanks, JobRunner, MayAct};
pub use planner::{Feed, Planner};
pub use reconciler::Reconciler;
pub use relay::{EventRelay, OnMoves, Outlets, cloud_event};
pub use retention::{AgesInForce, ages_in_force, change_ages};
pub use rounds::{DISPATCH_TASK_QUEUE, DispatchRound, DispatcherFlow, Dispatchers, dispatcher_id};
pub use sender::Sender;
pub use shift::Shift;
pub use sweeper::{Sweep, Sweeper};
pub use why::{
    ENGINE_IS_AWAY, NOBODY_DISPATCHES, is_overdue, nobody_runs_it, waits_for_dispatch,
    why_not_running,
};
