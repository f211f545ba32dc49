//! Invoices that come as records of a feed: the flow that takes one chunk of them in. As with a file of payments, every
//! line is accepted, a duplicate or rejected, and is counted once.

use std::collections::HashMap;

use serde::{Deserialize, Serialize};
use tollgate_core::flow::{Call, Ctx, End, Flow, FlowError, Policy, Step, StepError};
use tollgate_core::id::ItemId;
use tollgate_core::ports::{ChunkEnd, ChunkId, ChunkTurn, LineError};

use super::Invoices;
use super::many::{Judged, known};
use super::request::InvoiceRequest;
use crate::payments::bulk::{ChunkInput, judge, tries};
use crate::payments::deferred::Trouble;
use crate::steps::STORE_STEP;

const ID: &str = "invoiceId";

#[derive(Debug)]
pub struct InvoiceBulkInitFlow;

impl Flow for InvoiceBulkInitFlow {
    const NAME: &'static str = "InvoiceBulkInitWorkflow";
    type In = ChunkInput;
    type Out = bool;

    async fn run<C: Ctx>(ctx: C, input: ChunkInput) -> Result<End<Self>, FlowError> {
        let counted = ctx.step(AdmitInvoices { chunk: input.chunk }).await?;
        Ok(End::Done(counted))
    }
}

/// Takes the invoices of a chunk in, in one transaction, then ends the chunk in another. Dead in between, the next try
/// finds what this one has taken in and counts it as accepted. The answer is whether this try has ended the chunk.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct AdmitInvoices {
    pub chunk: ChunkId,
}

impl Step for AdmitInvoices {
    const NAME: &'static str = "admit_invoices";
    type Out = bool;
    type World = Invoices;

    fn key(&self) -> String {
        Self::NAME.to_owned()
    }
    fn policy(&self) -> Policy {
        STORE_STEP
    }
    async fn run(&self, world: &Invoices, call: &Call) -> Result<bool, StepError> {
        let taken_in = match Trouble::of_many_tries(call) {
            Ok(()) => self.take_in(world).await,
            Err(trouble) => Err(trouble),
        };
        tries::ended(&*world.store, &self.chunk, taken_in, call).await
    }
}

impl AdmitInvoices {
    async fn take_in(&self, world: &Invoices) -> Result<bool, Trouble> {
        let Some(text) = world.store.chunk(&self.chunk).await? else {
            return Ok(false);
        };
        let mut read = Read::default();
        tries::each_line(&text, |number, line| read.line(number, line)).await;
        drop(text);
        let turn = tries::turn(&*world.store, &world.order, &self.chunk).await?;
        let Some(turn) = turn else {
            return Ok(false);
        };
        // The chunk's own name, also if this is a second flow for it.
        let flow = self.chunk.flow();
        let judged = world.billing.create_many(&read.invoices, &flow).await?;
        if turn == ChunkTurn::Now {
            world.order.admitted(&self.chunk);
        }
        let mut end = read.end(judged);
        tries::keep_rejected(&*world.store, &self.chunk, &mut end).await?;
        Ok(world.store.finish_chunk(&self.chunk, end).await?)
    }
}

/// The lines of a chunk, as far as they can be judged without looking anything up.
#[derive(Debug, Default)]
struct Read {
    /// One per id and content; of two contents of one id the first that can be taken in is.
    invoices: Vec<InvoiceRequest>,
    /// The line of each.
    lines: Vec<u64>,
    /// The places of an id, in their order.
    by_id: HashMap<ItemId, Vec<usize>>,
    /// Lines that repeat an earlier one, by its place.
    repeats: Vec<(u64, usize)>,
    rejected: Vec<LineError>,
}

impl Read {
    fn line(&mut self, number: u64, text: Result<&[u8], String>) {
        match judge::parsed(text, ID, InvoiceRequest::parse) {
            Ok(invoice) => self.invoice(number, invoice),
            Err((id, details)) => self.rejected.push(judge::error(number, id, details)),
        }
    }

    fn invoice(&mut self, number: u64, invoice: InvoiceRequest) {
        let places = self.by_id.entry(invoice.invoice_id.clone()).or_default();
        let invoices = &self.invoices;
        if let Some(same) = places.iter().find(|place| invoices[**place] == invoice) {
            self.repeats.push((number, *same));
            return;
        }
        places.push(self.invoices.len());
        self.invoices.push(invoice);
        self.lines.push(number);
    }

    fn end(mut self, judged: Vec<Judged>) -> ChunkEnd {
        let (mut end, mut sums) = (ChunkEnd::default(), judge::Sums::new());
        let mut refusals = HashMap::new();
        for (place, judged) in judged.into_iter().enumerate() {
            let invoice = &self.invoices[place];
            let details = match judged {
                Judged::Accepted(placed) => {
                    judge::add(&mut sums, invoice.money, &placed);
                    continue;
                }
                Judged::Duplicate => {
                    end.duplicate += 1;
                    continue;
                }
                Judged::Conflict => {
                    let earlier = self.by_id.get(&invoice.invoice_id).into_iter().flatten();
                    let mut earlier = earlier.take_while(|other| **other < place);
                    match earlier.find(|other| !refusals.contains_key(*other)) {
                        Some(first) => judge::other_content(ID, self.lines[*first]),
                        None => known(),
                    }
                }
                Judged::Rejected(details) => details,
            };
            let id = Some(invoice.invoice_id.to_string());
            let error = judge::error(self.lines[place], id, details.clone());
            self.rejected.push(error);
            refusals.insert(place, details);
        }
        for (number, same) in self.repeats {
            let Some(details) = refusals.get(&same) else {
                end.duplicate += 1;
                continue;
            };
            let id = Some(self.invoices[same].invoice_id.to_string());
            self.rejected
                .push(judge::error(number, id, details.clone()));
        }
        self.rejected.sort_unstable_by_key(|error| error.line);
        end.rejected = self.rejected;
        end.sums = sums.into_values().collect();
        end
    }
}
