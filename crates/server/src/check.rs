//! What would stop a start before it has touched the store: for `tollgate config check`.

use std::path::Path;

use tollgate_api::tls;
use tollgate_config::{Check, Config};

use crate::downstreams::banks::Banks;
use crate::downstreams::check_services;
use crate::downstreams::providers::Provider;
use crate::downstreams::receivers::Receivers;
use crate::engines::on_temporal;
use crate::topics::events::Events;
use crate::topics::feeds::Feeds;

/// What each part says of its configuration, in the order in which it is shown.
const PARTS: [Check; 8] = [
    |config| Banks::connect(&config.downstream).map(drop),
    |config| Receivers::connect(&config.downstream.notifications).map(drop),
    |config| Provider::connect(&config.downstream).map(drop),
    |config| tls::acceptor(&config.tls).map(drop),
    |config| on_temporal::check_files(&config.engine),
    |config| check_services::connect(config).map(drop),
    |config| Feeds::connect(config).map(drop),
    |config| Events::connect(config).map(drop),
];

/// Everything that is wrong with a configuration, one sentence each.
pub fn problems(file: Option<&Path>) -> Vec<String> {
    Config::problems(file, &PARTS)
}
