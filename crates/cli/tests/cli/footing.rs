//! What an end-to-end test runs on. A scenario is written once; `on_both_footings!` makes a test of it
//! on the embedded engine and one on Temporal and PostgreSQL.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde_json::Value;
use tollgate_conformance::postgres::shared;
use tollgate_conformance::temporal::Namespace;
use tollgate_core::id::FlowId;
use tollgate_sandbox::Bank;
use tollgate_temporal::{Server, record};

use crate::http::{Response, post};
use crate::pair::{Pair, paired};
use crate::served::{Setting, eventually};

/// More than anything takes on a busy machine.
pub(crate) const LONG: Duration = Duration::from_mins(1);

pub(crate) enum Footing {
    Embedded,
    /// One server for all tests of this binary, a namespace for each.
    Temporal(Namespace),
}

/// Each scenario is a function of a `&Footing`.
macro_rules! on_both_footings {
    ($($scenario:ident),+ $(,)?) => {
        mod embedded {
            $(#[test]
            fn $scenario() {
                super::$scenario(&crate::footing::Footing::Embedded);
            })+
        }
        mod on_temporal {
            $(#[test]
            fn $scenario() {
                let footing = crate::footing::Footing::temporal();
                super::$scenario(&footing);
                footing.record_histories();
            })+
        }
    };
}
pub(crate) use on_both_footings;

impl Footing {
    pub(crate) fn temporal() -> Self {
        Self::Temporal(Namespace::create())
    }

    /// A server and its bank; with the embedded engine on SQLite.
    pub(crate) fn pair(&self, extra: &str) -> Pair {
        paired(|bank| self.setting(bank, extra))
    }

    pub(crate) fn setting(&self, bank: &Bank, extra: &str) -> Setting {
        match self {
            Self::Embedded => Setting::new(bank, extra),
            Self::Temporal(_) => self.setting_on(&database(), bank, extra),
        }
    }

    /// On a PostgreSQL database, for scenarios that look into it.
    pub(crate) fn pair_on(&self, url: &str, extra: &str) -> Pair {
        paired(|bank| self.setting_on(url, bank, extra))
    }

    fn setting_on(&self, url: &str, bank: &Bank, extra: &str) -> Setting {
        let engine = match self {
            Self::Embedded => String::new(),
            Self::Temporal(namespace) => format!("engine.url = \"{}\"\n", namespace.url()),
        };
        Setting::on(url, bank, &format!("{engine}{extra}"))
    }

    /// With `TGTEST_WRITE=1`: keeps a history of every flow that has none yet, for the replays.
    pub(crate) fn record_histories(&self) {
        let Self::Temporal(namespace) = self else {
            return;
        };
        if std::env::var_os("TGTEST_WRITE").is_none() {
            return;
        }
        let list = ["workflow", "list", "--limit", "500", "--output", "json"];
        let over = "ExecutionStatus = 'Completed'";
        let listed = eventually("flows are listed", LONG, || {
            let listed = namespace.ask(&[&list[..], &["--query", over]].concat())?;
            let listed: Vec<Value> = serde_json::from_str(&listed).ok()?;
            (!listed.is_empty()).then_some(listed)
        });
        // The one that went furthest.
        let length = |flow: &Value| {
            flow["historyLength"]
                .as_str()
                .and_then(|it| it.parse().ok())
        };
        let mut listed: Vec<_> = listed
            .iter()
            .map(|it| (length(it).unwrap_or(0_u32), it))
            .collect();
        listed.sort_by_key(|(length, _)| std::cmp::Reverse(*length));
        for (_, flow) in listed {
            let file = histories().join(format!("{}.json", flow["type"]["name"].as_str().unwrap()));
            if !file.exists() {
                let id = FlowId::new(flow["execution"]["workflowId"].as_str().unwrap());
                std::fs::write(&file, recorded(namespace, &id)).unwrap();
                println!("{id} is kept as {}", file.display());
            }
        }
    }
}

/// Posts a payment until it is known what becomes of it; it must be taken in. On Temporal the first
/// answer may be that this takes a moment, or that the server is too busy now; who asks again is told 200.
pub(crate) fn take_in(address: SocketAddr, payment: &Value) -> Response {
    let answer = eventually("it is taken in", LONG, || {
        let answer = post(address, "/payments", payment).unwrap();
        (!matches!(answer.status, 202 | 503)).then_some(answer)
    });
    assert!(matches!(answer.status, 200 | 201), "{}", answer.text);
    answer
}

/// A new one on the cluster that the tests of this binary share.
pub(crate) fn database() -> String {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    runtime.block_on(shared().database())
}

fn histories() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../temporal/tests/temporal/histories")
}

fn recorded(namespace: &Namespace, id: &FlowId) -> Vec<u8> {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let server = Server::plain(&namespace.server.address(), &namespace.name, "recorder");
    runtime.block_on(record(&server, id)).unwrap()
}
