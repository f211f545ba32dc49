//! Where a request comes from, as far as it says so itself: the name that it calls us by, and the page that a browser
//! sends it for.

use std::net::IpAddr;

use axum::http::uri::Authority;
use axum::http::{HeaderMap, HeaderValue, header};

/// Without tokens, a browser on this machine must not do what a page from elsewhere tells it: such
/// a page can make its own name mean 127.0.0.1, but it cannot hide that name.
pub(crate) fn strange_host(headers: &HeaderMap) -> Option<String> {
    let host = headers.get(header::HOST)?;
    let shown = || String::from_utf8_lossy(host.as_bytes()).into_owned();
    let Some(authority) = host.to_str().ok().and_then(|h| h.parse::<Authority>().ok()) else {
        return Some(shown());
    };
    let name = authority.host().trim_matches(['[', ']']);
    let is_here = name.eq_ignore_ascii_case("localhost")
        || name.parse::<IpAddr>().is_ok_and(|ip| ip.is_loopback());
    (!is_here).then(shown)
}

/// What browsers say about where a request comes from; other clients say nothing.
pub(crate) fn from_another_site(headers: &HeaderMap) -> bool {
    let text = |name| {
        headers
            .get(name)
            .and_then(|value: &HeaderValue| value.to_str().ok())
    };
    if let Some(site) = text("sec-fetch-site") {
        return site != "same-origin" && site != "none";
    }
    match (text("origin"), text("host")) {
        (None, _) => false,
        (Some(origin), host) => origin.split_once("://").map(|(_, at)| at) != host,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(pairs: &[(&'static str, &str)]) -> HeaderMap {
        let pair = |(name, value): &(&'static str, &str)| {
            let name = header::HeaderName::from_static(name);
            (name, HeaderValue::from_str(value).unwrap())
        };
        pairs.iter().map(pair).collect()
    }

    #[test]
    fn a_request_from_another_site_is_told_by_what_browsers_say() {
        let table: [(&[(&'static str, &str)], bool); 8] = [
            (&[], false),
            (&[("sec-fetch-site", "same-origin")], false),
            (&[("sec-fetch-site", "none")], false),
            (&[("sec-fetch-site", "cross-site")], true),
            (&[("sec-fetch-site", "same-site")], true),
            (&[("origin", "http://a:1"), ("host", "a:1")], false),
            (&[("origin", "http://b:1"), ("host", "a:1")], true),
            (&[("origin", "null"), ("host", "a:1")], true),
        ];
        for (given, expected) in table {
            assert_eq!(from_another_site(&headers(given)), expected, "{given:?}");
        }
    }
}
