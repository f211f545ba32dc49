//! A server that is not there: at the start, later, or not for us.

use std::sync::Arc;
use std::time::Duration;

use serde_json::json;
use tollgate_conformance::sample::{self, SampleFlow, SampleIn, World};
use tollgate_conformance::temporal::TemporalServer;
use tollgate_core::flow::Flow;
use tollgate_core::id::FlowId;
use tollgate_core::ports::{FlowView, Memo, Start, Started};
use tollgate_temporal::{ConnectError, Reach, Registered, Server, Size, TemporalService};

use crate::at;

/// More than it ever takes on a busy machine.
pub(crate) const LONG: Duration = Duration::from_mins(1);

pub(crate) fn start(id: &str) -> Start {
    Start {
        id: FlowId::new(id),
        name: SampleFlow::NAME.to_owned(),
        task_queue: "sample".to_owned(),
        input_json: json!(SampleIn::rounds(1)).to_string(),
        delay: Duration::ZERO,
        memo: Memo::new(),
    }
}

pub(crate) async fn until(reach: &Reach, is_there: bool) {
    let looking = async {
        while reach.trouble().is_none() != is_there {
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    };
    let found = tokio::time::timeout(LONG, looking).await;
    found.unwrap_or_else(|_| panic!("{reach:?}, and not: {is_there}"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_comes_late_and_goes_away_is_waited_for() {
    let server = TemporalServer::not_yet_started();
    let mut service = TemporalService::connect(at(&server, "late")).await.unwrap();
    let world = Arc::new(World::default());
    let mut registered = Registered::new("sample", Size::keeping(1000));
    sample::register(&mut registered, &world);
    service.run(vec![registered]);
    let (engine, reach) = (service.engine(), service.reach());
    let refused = engine.start(vec![start("early")]).await.unwrap_err();
    assert!(refused.0.contains(&server.address()), "{refused}");
    assert!(refused.0.contains("refused"), "{refused}");

    server.start_again();
    until(&reach, true).await;
    let started = engine.start(vec![start("first")]).await.unwrap();
    assert_eq!(started, [Started::New]);
    let done = engine.view(&FlowId::new("first"), LONG).await.unwrap();
    assert!(matches!(done, FlowView::Done { .. }), "{done:?}");

    server.crash();
    until(&reach, false).await;
    assert!(engine.start(vec![start("second")]).await.is_err());
    server.start_again();
    until(&reach, true).await;
    engine.start(vec![start("second")]).await.unwrap();
    let done = engine.view(&FlowId::new("second"), LONG).await.unwrap();
    assert!(matches!(done, FlowView::Done { .. }), "{done:?}");
    service.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_namespace_that_does_not_exist_is_one_sentence() {
    let server = TemporalServer::start();
    let wrong = Server {
        namespace: "nowhere".to_owned(),
        ..at(&server, "lost")
    };
    let refused = TemporalService::connect(wrong).await.unwrap_err();
    assert!(matches!(refused, ConnectError::Refused(_)), "{refused:?}");
    let said = refused.to_string();
    assert!(said.contains("no namespace \"nowhere\""), "{said}");
}
