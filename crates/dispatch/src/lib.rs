//! The services on the ports: the gate gives turns, the sender sends exactly once as far as money
//! is concerned, the dispatcher starts what is due, the sweeper finds what was left behind,
//! the planner knows when everything will run, the import runner takes files in chunk by chunk, the job runner acts
//! on many items, the relay publishes what has moved, the archiver moves what has ended, the eraser forgets people.

mod age;
mod dispatching;
mod every;
mod feeds;
mod gate;
mod importing;
mod job_runner;
mod planning;
mod relay;
mod sending;
mod upkeep;

pub use age::ReadAt;
pub use dispatching::batch::{
    Batched, ExecBatchFlow, ExecuteBatch, Executes, Inline, register_batch,
};
pub use dispatching::cycle::{Cycle, Round};
pub use dispatching::dispatcher::Dispatcher;
pub use dispatching::item_types::{
    ItemTypeInForce, SwitchedOff, change_item_type, exec_task_queues, item_type, switched_off,
};
pub use dispatching::rounds::{
    DISPATCH_TASK_QUEUE, DispatchRound, DispatcherFlow, Dispatchers, dispatcher_id,
};
pub use every::Every;
pub use feeds::{FeedOptions, FeedRunner, FeedStart};
pub use gate::call_turns::CallTurnAt;
pub use gate::{Ask, Gate, GateOptions, NoTurn, Refusal};
pub use importing::file_order::FileOrder;
pub use importing::import_runner::{ChunkFlow, ImportRunner, Wake};
pub use job_runner::{AskBanks, JobRunner, MayAct};
pub use planning::forecaster::{
    Forecaster, ItemForecast, LEAST_WAY, LEAST_WAY_ON_TEMPORAL, LaneForecast, Late, LateInBulk,
    foresee, foresee_line, meets_deadline, without_lane,
};
pub use planning::planner::{ImaginedLoad, Planner};
pub use planning::replan_effect::ReplanEffect;
pub use planning::why::{
    ENGINE_IS_AWAY, NOBODY_DISPATCHES, is_overdue, nobody_runs_it, waits_for_dispatch,
    why_not_running,
};
pub use relay::{EventRelay, OnMoves, Outlets, cloud_event};
pub use sending::job::{IfDeclined, IfDone, Job, Moves, Sent};
pub use sending::sender::Sender;
pub use upkeep::archiver::{ArchivedType, Archiver, OldAges};
pub use upkeep::check_retention::CheckRetention;
pub use upkeep::eraser::{Eraser, ExportedFiles, FileTrouble, Sought};
pub use upkeep::reconciler::Reconciler;
pub use upkeep::retention::{AgesInForce, ages_in_force, change_ages};
pub use upkeep::sweeper::{Sweep, Sweeper};
