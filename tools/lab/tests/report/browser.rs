//! A real browser, driven through its DevTools protocol: enough to load a page, inspect it, and take a screenshot.

use base64::Engine;
use serde_json::{Value, json};
use std::io::{BufRead, BufReader};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use tungstenite::{Message, WebSocket};

pub struct Browser {
    process: Child,
    socket: WebSocket<TcpStream>,
    session: Option<String>,
    next: u64,
    _profile: tempfile::TempDir,
}

impl Browser {
    /// Starts Chromium without a window. It has no sandbox when root runs it, which it refuses otherwise; it loads only our own
    /// page.
    pub fn start() -> Self {
        let profile = tempfile::tempdir().expect("a folder for the profile");
        let mut process = Command::new("chromium")
            .args(["--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run"])
            .args(["--disable-background-networking", "--hide-scrollbars", "--remote-debugging-port=0"])
            .arg(format!("--user-data-dir={}", profile.path().display()))
            .arg("about:blank")
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .expect("chromium starts; `scripts/setup test` installs it");
        let mut lines = BufReader::new(process.stderr.take().expect("piped")).lines();
        let url =
            lines.by_ref().map_while(Result::ok).find_map(|line| Some(line.split_once("DevTools listening on ")?.1.to_string()));
        let url = url.expect("chromium says where it listens");
        // Its other output must not fill the pipe.
        std::thread::spawn(move || lines.for_each(drop));
        let address = url.trim_start_matches("ws://").split('/').next().expect("an address");
        let stream = TcpStream::connect(address).expect("the browser's port");
        let (socket, _) = tungstenite::client(url.as_str(), stream).expect("the browser speaks WebSocket");
        let mut browser = Self { process, socket, session: None, next: 0, _profile: profile };
        let target = browser.call("Target.createTarget", json!({"url": "about:blank"}));
        let session = browser.call("Target.attachToTarget", json!({"targetId": target["targetId"], "flatten": true}));
        browser.session = session["sessionId"].as_str().map(str::to_string);
        browser.call("Page.enable", json!({}));
        browser
    }

    fn call(&mut self, method: &str, params: Value) -> Value {
        self.next += 1;
        let mut request = json!({"id": self.next, "method": method, "params": params});
        if let Some(session) = &self.session {
            request["sessionId"] = json!(session);
        }
        self.socket.send(Message::text(request.to_string())).expect("the browser listens");
        loop {
            let answer = self.read();
            if answer["id"] == json!(self.next) {
                assert!(answer.get("error").is_none(), "{method}: {answer}");
                return answer["result"].clone();
            }
        }
    }

    fn read(&mut self) -> Value {
        loop {
            if let Message::Text(text) = self.socket.read().expect("the browser answers") {
                return serde_json::from_str(&text).expect("JSON");
            }
        }
    }

    /// Loads a file at this width, in this theme ("light", "dark") and medium ("screen", "print").
    pub fn load(&mut self, page: &Path, width: u32, theme: &str, medium: &str) {
        let mobile = width < 500;
        let size = json!({"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": mobile});
        self.call("Emulation.setDeviceMetricsOverride", size);
        let features = json!([{"name": "prefers-color-scheme", "value": theme}]);
        self.call("Emulation.setEmulatedMedia", json!({"media": medium, "features": features}));
        let url = format!("file://{}", page.display());
        self.call("Page.navigate", json!({"url": url}));
        while self.read()["method"] != json!("Page.loadEventFired") {}
    }

    /// The value of a JavaScript expression.
    pub fn evaluate(&mut self, expression: &str) -> Value {
        let answer =
            self.call("Runtime.evaluate", json!({"expression": expression, "returnByValue": true, "awaitPromise": true}));
        assert!(answer.get("exceptionDetails").is_none(), "{answer}");
        answer["result"]["value"].clone()
    }

    /// The complete page as PNG.
    pub fn picture(&mut self, file: &Path) {
        let size = self.evaluate("[innerWidth, document.documentElement.scrollHeight]");
        let clip = json!({"x": 0, "y": 0, "width": size[0], "height": size[1], "scale": 1});
        let answer = self.call("Page.captureScreenshot", json!({"captureBeyondViewport": true, "clip": clip}));
        let bytes =
            base64::engine::general_purpose::STANDARD.decode(answer["data"].as_str().expect("a picture")).expect("base64");
        std::fs::write(file, bytes).expect("room for a picture");
    }

    /// The page on paper, as PDF.
    pub fn print(&mut self) -> Vec<u8> {
        let answer = self.call("Page.printToPDF", json!({"printBackground": false}));
        base64::engine::general_purpose::STANDARD.decode(answer["data"].as_str().expect("a document")).expect("base64")
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}
