//! A reader of the console in a real browser, who finds things by the words that stand on them. A step that
//! fails tells which page was open and what stood on it.

use std::fmt;
use std::net::SocketAddr;

use serde_json::{Value, json};

use crate::footing::LONG;
use crate::served::eventually_or;
use crate::webdriver::Driver;

/// A desk and a phone.
pub(crate) const DESK: (u32, u32) = (1280, 800);
pub(crate) const PHONE: (u32, u32) = (390, 844);

pub(crate) struct Browser {
    driver: Driver,
    console: SocketAddr,
}

impl Browser {
    pub(crate) fn at(console: SocketAddr) -> Self {
        let driver = Driver::start();
        let browser = Self { driver, console };
        browser.sized(DESK);
        browser
    }

    pub(crate) fn open(&self, path: &str) {
        let url = json!({"url": format!("http://{}{path}", self.console)});
        self.must("open", self.driver.post("url", &url));
    }

    /// Path and query of the page that is open.
    pub(crate) fn address(&self) -> String {
        self.script("return location.pathname + location.search")
            .as_str()
            .unwrap()
            .to_owned()
    }

    pub(crate) fn script(&self, script: &str) -> Value {
        self.must(script, self.run(script, &[]))
    }

    /// A script that is too long to be shown.
    pub(crate) fn inject(&self, what: &str, script: &str) {
        self.must(what, self.run(script, &[]));
    }

    fn run(&self, script: &str, args: &[&str]) -> Result<Value, String> {
        let body = json!({"script": script, "args": args});
        self.driver.post("execute/sync", &body)
    }

    fn must<T>(&self, what: &str, result: Result<T, String>) -> T {
        result.unwrap_or_else(|why| panic!("{what}: {}", Instead { browser: self, why }))
    }

    /// Asks until it is so.
    pub(crate) fn until<T>(&self, what: &str, mut ask: impl FnMut() -> Result<T, String>) -> T {
        eventually_or(what, LONG, || {
            ask().map_err(|why| Instead { browser: self, why })
        })
    }

    /// Waits until these words stand on the page.
    pub(crate) fn sees(&self, words: &str) {
        self.sees_one_of(&[words]);
    }

    /// Which of these words stands on the page first.
    pub(crate) fn sees_one_of<'a>(&self, words: &[&'a str]) -> &'a str {
        self.until(&format!("to see {words:?}"), || {
            let text = self.run("return document.body.innerText", &[])?;
            let text = text.as_str().unwrap_or_default();
            let seen = words.iter().find(|words| text.contains(**words));
            seen.copied().ok_or_else(String::new)
        })
    }

    /// The same on a page that must be loaded again to tell something new.
    pub(crate) fn comes_to_see(&self, words: &str) {
        self.until(&format!("to come to see {words:?}"), || {
            self.driver.post("refresh", &json!({}))?;
            let text = self.run("return document.body.innerText", &[])?;
            let seen = text.as_str().is_some_and(|text| text.contains(words));
            seen.then_some(()).ok_or_else(String::new)
        });
    }

    /// A link, a button, a choice, or what opens more, by its words.
    pub(crate) fn click(&self, words: &str) {
        self.with("", &clickable(words), "click", &json!({}));
    }

    /// The same, below the heading of a section.
    pub(crate) fn click_in(&self, section: &str, words: &str) {
        let section = format!("//section[.//h2[normalize-space(.)=\"{section}\"]]");
        self.with(&section, &clickable(words), "click", &json!({}));
    }

    /// Types into the field with this label.
    pub(crate) fn fill(&self, label: &str, text: &str) {
        let field = format!("//label[starts-with(normalize-space(.), \"{label}\")]//input");
        self.with("", &field, "value", &json!({"text": text}));
    }

    /// Does something with the first of these that can be seen. A live page may replace it in between,
    /// so this is tried until it is done.
    fn with(&self, within: &str, xpath: &str, act: &str, body: &Value) {
        let wanted = format!("{within}{xpath}");
        self.until(&format!("{act} {wanted}"), || {
            let using = json!({"using": "xpath", "value": wanted});
            let found = self.driver.post("elements", &using)?;
            for element in found.as_array().into_iter().flatten() {
                let names = element.as_object().into_iter().flatten();
                let id = names.map(|(_, id)| id.as_str().unwrap()).next().unwrap();
                if self.driver.get(&format!("element/{id}/displayed"))? == true {
                    return self.driver.post(&format!("element/{id}/{act}"), body);
                }
            }
            Err("it cannot be seen".to_owned())
        });
    }

    /// What stands beside a name, as in `waiting 1,200`.
    pub(crate) fn number(&self, name: &str) -> String {
        let script = "return [...document.querySelectorAll('dt')]
            .find(dt => dt.textContent === arguments[0])?.nextElementSibling.textContent ?? null";
        let found = self.must(name, self.run(script, &[name]));
        let found = found.as_str().map(|text| text.trim().to_owned());
        self.must(name, found.ok_or_else(|| "it is not there".to_owned()))
    }

    /// The text of everything that a selector finds.
    pub(crate) fn all(&self, css: &str) -> Vec<String> {
        let script =
            "return [...document.querySelectorAll(arguments[0])].map(it => it.textContent.trim())";
        let found = self.must(css, self.run(script, &[css]));
        serde_json::from_value(found).unwrap()
    }

    /// As after twelve hours, when the browser has thrown the cookie away.
    pub(crate) fn forget_session(&self) {
        self.must("forget", self.driver.delete("cookie"));
    }

    pub(crate) fn sized(&self, (width, height): (u32, u32)) {
        let phone = width == PHONE.0;
        let size =
            json!({"width": width, "height": height, "deviceScaleFactor": 1, "mobile": phone});
        self.devtools("Emulation.setDeviceMetricsOverride", &size);
    }

    pub(crate) fn dark(&self, dark: bool) {
        let value = if dark { "dark" } else { "light" };
        let feature = json!({"features": [{"name": "prefers-color-scheme", "value": value}]});
        self.devtools("Emulation.setEmulatedMedia", &feature);
    }

    fn devtools(&self, command: &str, params: &Value) {
        let body = json!({"cmd": command, "params": params});
        self.must(command, self.driver.post("goog/cdp/execute", &body));
    }

    /// What is in the window, as base64 of a PNG.
    pub(crate) fn picture(&self) -> String {
        let picture = self.must("picture", self.driver.get("screenshot"));
        picture.as_str().unwrap().to_owned()
    }

    /// The page is all there, has nothing on it that is not ours, and fits into the window.
    pub(crate) fn is_whole(&self) {
        let script = "
            const page = document.documentElement, all = css => [...document.querySelectorAll(css)];
            const acts = it => [...it.attributes].some(a => a.name.startsWith('on'));
            const ours = location.origin + '/console/';
            return {
              state: document.readyState,
              styles: [...document.styleSheets].map(it => it.cssRules.length > 0),
              scripts: all('script').map(it => it.getAttribute('src')),
              handlers: all('*').filter(acts).length,
              strange: all('img').filter(it => !it.src.startsWith(ours)).length,
              unseen: all('img').filter(it => !it.naturalWidth).length,
              ran: window.ran ?? 0,
              tooWide: Math.max(0, page.scrollWidth - page.clientWidth),
            }";
        let whole = json!({"state": "complete", "styles": [true], "scripts": ["/console/script.js"],
            "handlers": 0, "strange": 0, "unseen": 0, "ran": 0, "tooWide": 0});
        self.until("the page is whole", || {
            let found = self.run(script, &[])?;
            if found == whole {
                return Ok(());
            }
            Err(found.to_string())
        });
    }

    /// What the browser complained about since it was last asked, but for what was to be expected.
    pub(crate) fn complaints(&self, expected: &[&str]) -> Vec<String> {
        let log = self.must(
            "log",
            self.driver.post("se/log", &json!({"type": "browser"})),
        );
        let entries = log.as_array().into_iter().flatten();
        let entries = entries.filter(|it| it["level"] == "SEVERE" || it["level"] == "WARNING");
        let lines = entries.map(|it| format!("{} {} {}", it["level"], it["source"], it["message"]));
        lines
            .filter(|line| !expected.iter().any(|words| line.contains(words)))
            .collect()
    }
}

fn clickable(words: &str) -> String {
    let kinds = "self::a or self::button or self::summary or self::label";
    format!("//*[{kinds}][normalize-space(.)=\"{words}\"]")
}

/// Why a step failed, and what is open. Asked for only when it is told.
struct Instead<'a> {
    browser: &'a Browser,
    why: String,
}

impl fmt::Display for Instead<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let script = "return location.href + '\\n' + document.body.innerText.slice(0, 4000)";
        let page = self.browser.run(script, &[]);
        let page = page.map_or_else(|why| why, |page| page.as_str().unwrap_or("").to_owned());
        write!(f, "{}; at {page}", self.why)
    }
}
