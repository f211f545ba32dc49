//! Reminders: one letter per id, posted once. A whole domain, as docs/adding-a-domain.md shows it.

use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use tollgate_core::flow::{
    Call, Ctx, End, ExecInput, Flow, FlowError, Policy, Registrar, Step, StepError,
};
use tollgate_core::id::{FlowId, ItemId, ItemType, LaneName};
use tollgate_core::item_type::ItemTypeConfig;
use tollgate_core::money::Money;
use tollgate_core::ports::{NewItem, NewRecord, Request, StatusMove, Store, Then};
use tollgate_core::retry;
use tollgate_dispatch::{Job, Moves, Sender, Sent};

pub(crate) fn item_type() -> ItemType {
    ItemType::new("REMINDER")
}

/// The item type's configuration, for the table of item types.
pub(crate) fn default_config() -> ItemTypeConfig {
    ItemTypeConfig {
        exec_workflow_type: ReminderExecFlow::NAME.to_owned(),
        exec_task_queue: "reminder-exec-task-queue".to_owned(),
        ..ItemTypeConfig::default()
    }
}

/// What is written for a new one, by `Store::admit`.
pub(crate) fn new_item(id: &str, lane: &LaneName, text: &str) -> NewItem {
    let record = NewRecord::new(id, "WAITING", Money::NONE, text.to_owned());
    let flow = FlowId::new(format!("create-reminder-{id}"));
    NewItem::new(ItemId::new(id), lane.clone(), record, text, flow)
}

/// What the steps need.
pub(crate) struct Reminders {
    pub(crate) store: Arc<dyn Store>,
    pub(crate) sender: Sender,
}

/// The whole domain, for either engine.
pub(crate) fn register(registrar: &mut impl Registrar, world: &Arc<Reminders>) {
    registrar.flow::<ReminderExecFlow>().step::<Remind>(world);
}

pub(crate) struct ReminderExecFlow;

impl Flow for ReminderExecFlow {
    const NAME: &'static str = "ReminderExecWorkflow";
    type In = ExecInput;
    type Out = Sent;

    async fn run<C: Ctx>(ctx: C, input: ExecInput) -> Result<End<Self>, FlowError> {
        Ok(End::Done(ctx.step(Remind { input }).await?))
    }
}

#[derive(Serialize, Deserialize)]
pub(crate) struct Remind {
    input: ExecInput,
}

impl Step for Remind {
    const NAME: &'static str = "remind";
    type Out = Sent;
    type World = Reminders;

    fn key(&self) -> String {
        Self::NAME.to_owned()
    }
    fn policy(&self) -> Policy {
        let retry = retry::Policy {
            max_attempts: 60,
            first_pause: Duration::from_millis(200),
            factor: retry::TWICE,
            longest_pause: Duration::from_secs(2),
        };
        let timeout = Duration::from_mins(2);
        Policy { timeout, retry }
    }
    async fn run(&self, world: &Reminders, _: &Call) -> Result<Sent, StepError> {
        let (item, run) = (self.input.item.clone(), self.input.run);
        let done = StatusMove::new(&["WAITING"], "SENT");
        let job = Job {
            item: item.clone(),
            run,
            request: Request {
                reference: item.id.to_string(),
                idempotency_key: format!("reminder-{}", item.id),
                body_json: self.input.context_json.clone(),
                sent_by: None,
            },
            moves: Moves {
                done: done.clone(),
                refused: StatusMove::new(&["WAITING"], "REFUSED"),
                in_doubt: StatusMove::new(&[], "WAITING"),
                not_done: StatusMove::new(&[], "WAITING"),
            },
            accounts: vec![],
            refused_then: Then::Finish,
            if_done: None,
        };
        let sent = world.sender.send(&job).await?;
        if matches!(sent, Sent::Done(_)) {
            world.store.finish(&item, run, done).await?;
        }
        Ok(sent)
    }
}
