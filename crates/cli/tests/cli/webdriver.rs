//! Debian's chromium behind chromedriver, spoken to by WebDriver: start, one command, end. A few requests
//! of JSON over HTTP, so this is all of a client that tests need.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::time::Duration;

use serde_json::{Value, json};
use tempfile::TempDir;

/// Reads until the test is over, however it ends, then ends chromedriver and its browser: both are in the
/// group of this shell.
const GUARD: &str = "command -v chromium chromedriver > /dev/null || exit 1
chromedriver --port=0 &
exec > /dev/null
cat
kill -KILL 0";

/// One command includes the loading of a page, on a busy machine.
const PATIENCE: Duration = Duration::from_mins(2);

/// One browser of its own, with a profile of its own.
pub(crate) struct Driver {
    guard: Child,
    /// Kept open, for chromedriver would die of writing to nobody.
    _said: BufReader<ChildStdout>,
    address: SocketAddr,
    /// Where its commands go.
    session: String,
    profile: TempDir,
}

impl Driver {
    pub(crate) fn start() -> Self {
        let profile = tempfile::tempdir().unwrap();
        let mut guard = Command::new("setsid")
            .args(["sh", "-c", GUARD])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let mut said = BufReader::new(guard.stdout.take().unwrap());
        let port = port(&mut said).expect(
            "chromedriver did not start: chromium and chromium-driver come with ./dev setup",
        );
        let address = SocketAddr::from(([127, 0, 0, 1], port));
        // From here on, whatever fails ends it.
        let mut driver = Self {
            guard,
            _said: said,
            address,
            session: String::new(),
            profile,
        };
        let wish = driver.capabilities();
        let told = exchange(address, "POST", "/session", &wish).unwrap();
        driver.session = format!("/session/{}", told["sessionId"].as_str().unwrap());
        driver
    }

    fn capabilities(&self) -> Value {
        let profile = format!("--user-data-dir={}", self.profile.path().display());
        // Without a sandbox, for tests may run as root and in containers; it opens nothing but our own pages.
        let args = [
            "--headless=new",
            "--no-sandbox",
            "--disable-gpu",
            "--disable-dev-shm-usage",
            "--hide-scrollbars",
            "--window-size=1280,800",
            &profile,
        ];
        json!({"capabilities": {"alwaysMatch": {
            "goog:chromeOptions": {"binary": "/usr/bin/chromium", "args": args},
            "goog:loggingPrefs": {"browser": "ALL"},
            // An alert stays, and with it every command fails.
            "unhandledPromptBehavior": "ignore",
        }}})
    }

    pub(crate) fn get(&self, command: &str) -> Result<Value, String> {
        let path = format!("{}/{command}", self.session);
        exchange(self.address, "GET", &path, &Value::Null)
    }

    pub(crate) fn post(&self, command: &str, body: &Value) -> Result<Value, String> {
        let path = format!("{}/{command}", self.session);
        exchange(self.address, "POST", &path, body)
    }

    pub(crate) fn delete(&self, command: &str) -> Result<Value, String> {
        let path = format!("{}/{command}", self.session);
        exchange(self.address, "DELETE", &path, &Value::Null)
    }
}

impl Drop for Driver {
    fn drop(&mut self) {
        drop(self.guard.stdin.take());
        let _ = self.guard.wait();
    }
}

/// `… was started successfully on port 40489.`
fn port(said: &mut impl BufRead) -> Option<u16> {
    let mut lines = said.lines().map_while(Result::ok);
    let line = lines.find(|line| line.contains("started successfully"))?;
    let (_, port) = line.rsplit_once(' ')?;
    port.trim_end_matches('.').parse().ok()
}

/// What it answers, or the error it tells. It keeps connections open, so the length says where an answer ends.
fn exchange(address: SocketAddr, method: &str, path: &str, body: &Value) -> Result<Value, String> {
    let body = match body {
        Value::Null => String::new(),
        body => body.to_string(),
    };
    let answer = answered(address, method, path, &body);
    let (ok, answer) = answer.map_err(|error| format!("chromedriver: {error}"))?;
    let mut told: Value = serde_json::from_slice(&answer).map_err(|error| error.to_string())?;
    let value = told["value"].take();
    if ok {
        return Ok(value);
    }
    Err(format!("{}: {}", value["error"], value["message"]))
}

fn answered(
    address: SocketAddr,
    method: &str,
    path: &str,
    body: &str,
) -> std::io::Result<(bool, Vec<u8>)> {
    let mut stream = TcpStream::connect(address)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    let length = body.len();
    let request = format!(
        "{method} {path} HTTP/1.1\r\nhost: localhost\r\ncontent-length: {length}\r\n\r\n{body}"
    );
    stream.write_all(request.as_bytes())?;
    let mut stream = BufReader::new(stream);
    let mut head = String::new();
    while !head.ends_with("\r\n\r\n") {
        if stream.read_line(&mut head)? == 0 {
            return Err(std::io::ErrorKind::UnexpectedEof.into());
        }
    }
    let head = head.to_ascii_lowercase();
    let length = head
        .lines()
        .find_map(|line| line.strip_prefix("content-length:"));
    let length = length.and_then(|length| length.trim().parse().ok());
    let mut answer = vec![0; length.unwrap_or(0)];
    stream.read_exact(&mut answer)?;
    Ok((head.starts_with("http/1.1 200"), answer))
}
