//! Schedules as settings: for all invoices, for a customer's, for one. The most specific wins, and
//! a change is not retroactive: what is queued keeps its time unless it is rescheduled.

use std::sync::Arc;

use jiff::tz::TimeZone;
use tollgate_core::Timestamp;
use tollgate_core::calendar::Calendar;
use tollgate_core::id::ItemId;
use tollgate_core::ports::{Author, ItemView, Setting, SettingKind, Store, StoreError};

use super::customers::{self, Customers};
use super::error::BillingError;
use super::request::{Customer, read_zone};
use super::schedule::{Schedule, ScheduleText};
use super::status::InvoiceStatus;
use super::{document, item};

/// What a schedule is for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Level {
    Global,
    Customer(String),
    Invoice(String),
}

impl Level {
    /// The setting's name; an id has no slash.
    fn name(&self) -> String {
        match self {
            Self::Global => "global".to_owned(),
            Self::Customer(id) => format!("customer/{id}"),
            Self::Invoice(id) => format!("invoice/{id}"),
        }
    }
}

/// A schedule in force at one level.
#[derive(Debug, Clone)]
pub struct ScheduleInForce {
    pub text: ScheduleText,
    /// `None` for the one that is there before anybody has said anything.
    pub setting: Option<Setting>,
    pub next: Vec<Timestamp>,
    pub warning: Option<String>,
}

pub struct Schedules {
    store: Arc<dyn Store>,
    customers: Customers,
}

impl std::fmt::Debug for Schedules {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Schedules").finish_non_exhaustive()
    }
}

impl Schedules {
    pub fn new(store: Arc<dyn Store>) -> Self {
        let customers = Customers::new(Arc::clone(&store));
        Self { store, customers }
    }

    /// What a schedule would mean, before anybody saves it, in the zone of its customers.
    pub async fn preview(
        &self,
        text: ScheduleText,
        zone: &TimeZone,
    ) -> Result<ScheduleInForce, BillingError> {
        let schedule = self.read(&text).await?;
        let now = self.store.now().await?;
        let next = schedule.next_few(now, zone);
        if next.is_empty() {
            let why = "never falls into its calendar's open time";
            return Err(BillingError::field("cron", why));
        }
        Ok(ScheduleInForce {
            text,
            setting: None,
            next,
            warning: schedule.warning(now, zone),
        })
    }

    /// Puts a schedule in force from now on.
    pub async fn put(
        &self,
        level: &Level,
        text: ScheduleText,
        author: Author,
    ) -> Result<ScheduleInForce, BillingError> {
        let zone = self.zone_of(level).await?;
        let mut saved = self.preview(text, &zone).await?;
        saved.text.time_zone = match saved.text.time_zone.as_deref().map(read_zone) {
            Some(Ok((name, _))) => Some(name),
            _ => None,
        };
        let body = json(&Some(&saved.text))?;
        let (kind, name) = (SettingKind::Schedule, level.name());
        let setting = self.store.put_setting(kind, &name, body, author).await?;
        saved.setting = Some(setting);
        Ok(saved)
    }

    /// What is in force at one level; an error if there is nothing.
    pub async fn get(&self, level: &Level) -> Result<ScheduleInForce, BillingError> {
        let zone = self.zone_of(level).await?;
        let (text, setting) = match self.at(level).await? {
            At::Put(text, setting) => (text, Some(setting)),
            At::Nothing | At::Deleted if *level == Level::Global => (ScheduleText::default(), None),
            At::Nothing | At::Deleted => return Err(none(level)),
        };
        let shown = self.preview(text, &zone).await?;
        Ok(ScheduleInForce { setting, ..shown })
    }

    /// Takes a schedule away: never the global one, and one that outstanding invoices go by only
    /// with `force`. They keep the times that they have; the less specific one says what follows.
    pub async fn delete(
        &self,
        level: &Level,
        force: bool,
        author: Author,
    ) -> Result<(), BillingError> {
        if let At::Nothing | At::Deleted = self.at(level).await?
            && *level != Level::Global
        {
            return Err(none(level));
        }
        let may_be_forced = force && *level != Level::Global;
        if !may_be_forced && let Some(why) = self.in_use(level).await? {
            return Err(BillingError::Conflict(format!("schedule: {why}")));
        }
        let body = json(&None::<ScheduleText>)?;
        let (kind, name) = (SettingKind::Schedule, level.name());
        self.store.put_setting(kind, &name, body, author).await?;
        Ok(())
    }

    /// When its schedule wants an invoice next.
    pub(super) async fn next_of(
        &self,
        invoice: &ItemView,
        now: Timestamp,
    ) -> Result<Timestamp, BillingError> {
        let kept = document(invoice)?;
        let customer = self.customers.known(&kept.customer_id).await?;
        let (id, own) = (&invoice.item.id, kept.schedule.as_ref());
        let schedule = self.of_invoice(Some(id), own, &customer).await?;
        schedule
            .after(now, &customer.zone())
            .ok_or_else(never_again)
    }

    /// What somebody should think about who gives an invoice this schedule, told again. If it cannot
    /// be read any more, since its calendar has gone, nothing is told: a repeat is never refused.
    pub(super) async fn warning(&self, text: &ScheduleText) -> Result<Option<String>, StoreError> {
        match self.read(text).await {
            Ok(schedule) => Ok(schedule.warning(self.store.now().await?, &TimeZone::UTC)),
            Err(BillingError::Store(error)) => Err(error),
            Err(_) => Ok(None),
        }
    }

    /// By which schedule an invoice is charged. `own` is the one that it came with.
    pub async fn of_invoice(
        &self,
        invoice: Option<&ItemId>,
        own: Option<&ScheduleText>,
        customer: &Customer,
    ) -> Result<Schedule, BillingError> {
        if let Some(id) = invoice {
            match self.at(&Level::Invoice(id.to_string())).await? {
                At::Put(text, _) => return self.read(&text).await,
                At::Nothing => {}
                // Taken away by a person, and with it the one that it came with.
                At::Deleted => return self.of_invoices(customer).await,
            }
        }
        match own {
            Some(text) => self.read(text).await,
            None => self.of_invoices(customer).await,
        }
    }

    async fn of_invoices(&self, customer: &Customer) -> Result<Schedule, BillingError> {
        let of_customer = Level::Customer(customer.customer_id.clone());
        for level in [of_customer, Level::Global] {
            if let At::Put(text, _) = self.at(&level).await? {
                return self.read(&text).await;
            }
        }
        self.read(&ScheduleText::default()).await
    }

    pub(super) async fn read(&self, text: &ScheduleText) -> Result<Schedule, BillingError> {
        let calendar = match &text.calendar {
            None => None,
            Some(name) => {
                let all = self.store.calendars().await?;
                let found = all.into_iter().find(|one| one.name.as_str() == name);
                let read = found.map(|found| Calendar::read(&found.text)).transpose();
                read.map_err(BillingError::Invalid)?
            }
        };
        Schedule::read(text, calendar).map_err(BillingError::Invalid)
    }

    async fn at(&self, level: &Level) -> Result<At, StoreError> {
        let (kind, name) = (SettingKind::Schedule, level.name());
        let Some(setting) = self.store.setting(kind, &name).await? else {
            return Ok(At::Nothing);
        };
        let text: Option<ScheduleText> = serde_json::from_str(&setting.body_json)
            .map_err(|e| StoreError::Bug(format!("schedule {name}: {e}")))?;
        Ok(text.map_or(At::Deleted, |text| At::Put(text, setting)))
    }

    /// The zone of its customer; all customers together are nowhere in particular.
    async fn zone_of(&self, level: &Level) -> Result<TimeZone, BillingError> {
        let customer = match level {
            Level::Global => return Ok(TimeZone::UTC),
            Level::Customer(id) => id.clone(),
            Level::Invoice(id) => {
                let invoice = self.store.item(&item(&ItemId::new(id.as_str()))).await?;
                let invoice = invoice.ok_or_else(|| BillingError::no_invoice(id))?;
                document(&invoice)?.customer_id
            }
        };
        Ok(self.customers.known(&customer).await?.zone())
    }

    /// Who goes by it, and what can be done about that.
    async fn in_use(&self, level: &Level) -> Result<Option<String>, StoreError> {
        const REMEDY: &str = "replace it, or delete it with force=true: queued invoices keep their time, and the less specific schedule applies afterwards";
        Ok(match level {
            Level::Global => {
                Some("the global schedule cannot be deleted; replace it instead".to_owned())
            }
            Level::Customer(id) => {
                let users = self.users_of_customers(id).await?;
                (users > 0).then(|| {
                    let users = customers::outstanding_text(users);
                    format!("it is in use by {users} of customer {id}; {REMEDY}")
                })
            }
            Level::Invoice(id) => {
                let invoice = self.store.item(&item(&ItemId::new(id.as_str()))).await?;
                let waits = invoice.is_some_and(|it| {
                    InvoiceStatus::OUTSTANDING
                        .iter()
                        .any(|status| status.as_str() == it.status)
                });
                waits.then(|| format!("it is in use: invoice {id} is outstanding; {REMEDY}"))
            }
        })
    }

    /// How many outstanding invoices of a customer go by its schedule.
    async fn users_of_customers(&self, customer: &str) -> Result<usize, StoreError> {
        let mut users = 0;
        for id in self.customers.outstanding(customer).await? {
            users += usize::from(!self.has_its_own(&id).await?);
        }
        Ok(users)
    }

    async fn has_its_own(&self, invoice: &ItemId) -> Result<bool, StoreError> {
        Ok(match self.at(&Level::Invoice(invoice.to_string())).await? {
            At::Put(..) => true,
            At::Deleted => false,
            At::Nothing => match self.store.item(&item(invoice)).await? {
                Some(view) => document(&view)?.schedule.is_some(),
                None => false,
            },
        })
    }
}

enum At {
    Nothing,
    Deleted,
    Put(ScheduleText, Setting),
}

pub(super) fn never_again() -> BillingError {
    BillingError::Refused("its schedule has no next time".to_owned())
}

fn none(level: &Level) -> BillingError {
    BillingError::NotFound(match level {
        Level::Global => "there is no global schedule".to_owned(),
        Level::Customer(id) => format!("customer {id} has no schedule of its own"),
        Level::Invoice(id) => format!("invoice {id} has no schedule of its own"),
    })
}

fn json(body: &impl serde::Serialize) -> Result<String, StoreError> {
    serde_json::to_string(body).map_err(|e| StoreError::Bug(e.to_string()))
}
