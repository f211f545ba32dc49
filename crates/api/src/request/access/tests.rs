//! Who may call what, as a table says it; and where a token is taken from.

use tollgate_config::auth::hash;
use tollgate_contract::Needs::{Ingest, Operate, Read};
use tollgate_contract::Role;

use super::*;

fn tokens() -> Tokens {
    let known = |role: Role| {
        let name = role.as_str().into();
        (hash(role.as_str().as_bytes()), Caller::Token { name, role })
    };
    Tokens::new(Role::ALL.map(known))
}

#[test]
fn what_is_not_in_the_table_is_not_served() {
    let here = "/admin/calendars/{name}";
    assert_eq!(needs(&Method::GET, here), Ok(Read));
    assert_eq!(needs(&Method::HEAD, here), Ok(Read));
    assert_eq!(needs(&Method::PUT, here), Ok(Operate));
    let known = Refusal::Method("GET, PUT".to_owned());
    assert_eq!(needs(&Method::DELETE, here), Err(known));
    let new = Refusal::NotListed("/new".to_owned());
    assert_eq!(needs(&Method::GET, "/new"), Err(new));
}

#[test]
fn a_token_is_taken_from_one_authorization_header_only() {
    let table: [(&[&str], Result<&str, Refusal>); 9] = [
        (&["Bearer read"], Ok("read")),
        (&["bearer  operate "], Ok("operate")),
        (&[], Err(Refusal::NoToken)),
        (&["Bearer "], Err(Refusal::NoToken)),
        (&["Bearer"], Err(Refusal::NoToken)),
        (&["Basic read"], Err(Refusal::NoToken)),
        (&["read"], Err(Refusal::NoToken)),
        (&["Bearer read", "Bearer operate"], Err(Refusal::NoToken)),
        (&["Bearer reader"], Err(Refusal::WrongToken)),
    ];
    for (given, expected) in table {
        let mut headers = HeaderMap::new();
        for value in given {
            headers.append(header::AUTHORIZATION, value.parse().unwrap());
        }
        let caller = authenticate(&tokens(), &Method::GET, &headers);
        let name = caller.map(|caller| caller.name().to_owned());
        assert_eq!(name, expected.map(str::to_owned), "{given:?}");
    }
}

#[test]
fn without_tokens_only_the_names_of_this_machine_are_served() {
    let table = [
        ("localhost", true),
        ("LOCALHOST:8090", true),
        ("127.0.0.1:8090", true),
        ("127.9.9.9", true),
        ("[::1]:8090", true),
        ("evil.example", false),
        ("localhost.evil.example:8090", false),
        ("10.0.0.1", false),
        ("ann@localhost, x", false),
    ];
    for (host, served) in table {
        let headers = HeaderMap::from_iter([(header::HOST, host.parse().unwrap())]);
        let caller = authenticate(&Tokens::default(), &Method::POST, &headers);
        assert_eq!(caller.is_ok(), served, "{host}");
        let with_token = authenticate(&tokens(), &Method::GET, &headers);
        assert_eq!(with_token, Err(Refusal::NoToken), "{host}");
    }
    let nameless = authenticate(&Tokens::default(), &Method::GET, &HeaderMap::new());
    assert_eq!(nameless, Ok(Caller::Local));
}

#[test]
fn without_tokens_a_page_of_another_site_may_look_and_change_nothing() {
    let site = header::HeaderName::from_static("sec-fetch-site");
    let given = HeaderMap::from_iter([
        (site, HeaderValue::from_static("cross-site")),
        (header::HOST, HeaderValue::from_static("localhost")),
    ]);
    let table = [
        (Method::GET, Ok(Caller::Local)),
        (Method::POST, Err(Refusal::AnotherSite)),
        (Method::PUT, Err(Refusal::AnotherSite)),
        (Method::DELETE, Err(Refusal::AnotherSite)),
    ];
    for (method, expected) in table {
        let caller = authenticate(&Tokens::default(), &method, &given);
        assert_eq!(caller, expected, "{method}");
        let with_token = authenticate(&tokens(), &method, &given);
        assert_eq!(with_token, Err(Refusal::NoToken), "{method}");
    }
}

#[test]
fn each_role_may_do_what_it_is_for() {
    let table: [(Needs, [bool; Role::ALL.len()]); 4] = [
        (AnyRole, [true, true, true]),
        (Ingest, [true, false, true]),
        (Read, [false, true, true]),
        (Operate, [false, false, true]),
    ];
    for (needs, expected) in table {
        for (role, expected) in Role::ALL.into_iter().zip(expected) {
            let name = "ann".into();
            let ann = Caller::Token { name, role };
            assert_eq!(permit(ann, needs).is_ok(), expected, "{role} {needs:?}");
        }
        assert!(permit(Caller::Local, needs).is_ok());
    }
}
