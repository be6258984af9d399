//! Servers that store what is sent to them: HTTP and SMTP.

use super::PATIENCE;
use serde_json::Value;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

/// The messages that have arrived so far.
type Arrived = Arc<Mutex<Vec<String>>>;

/// A server on the loopback interface.
pub struct Sink {
    pub address: String,
    arrived: Arrived,
}

impl Sink {
    fn start(talk: fn(TcpStream, &Arrived) -> std::io::Result<()>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port is free");
        let address = listener.local_addr().expect("it is bound").to_string();
        let arrived = Arrived::default();
        std::thread::spawn({
            let arrived = Arc::clone(&arrived);
            move || {
                for stream in listener.incoming().map_while(Result::ok) {
                    let arrived = Arc::clone(&arrived);
                    std::thread::spawn(move || talk(stream, &arrived));
                }
            }
        });
        Self { address, arrived }
    }

    /// Stores the bodies of POST requests, and the paths of GET requests.
    pub fn http() -> Self {
        Self::start(http)
    }

    /// Stores mails, from the first line of their head.
    pub fn smtp() -> Self {
        Self::start(smtp)
    }

    pub fn all(&self) -> Vec<String> {
        self.arrived.lock().expect("no panic").clone()
    }

    /// Waits until something that is wanted has arrived.
    pub fn wait_for(&self, what: &str, wanted: impl Fn(&[String]) -> bool) -> Vec<String> {
        let end = Instant::now() + PATIENCE;
        loop {
            let all = self.all();
            if wanted(&all) {
                return all;
            }
            assert!(Instant::now() < end, "waited in vain for {what}: {all:#?}");
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    /// The alarms that have arrived, as `phase event component`.
    pub fn alarms(&self) -> Vec<String> {
        let text = |value: &Value| value.as_str().unwrap_or("-").to_owned();
        let alarm = |body: &String| {
            let body: Value = serde_json::from_str(body).expect("JSON");
            [&body["phase"], &body["event"], &body["component"]].map(text).join(" ")
        };
        self.all().iter().map(alarm).collect()
    }

    /// Waits for an alarm. Returns how long that took.
    pub fn wait_for_alarm(&self, alarm: &str) {
        let start = Instant::now();
        self.wait_for(alarm, |_| self.alarms().iter().any(|known| known == alarm));
        eprintln!("{alarm}: after {:.1} s", start.elapsed().as_secs_f64());
    }
}

fn http(stream: TcpStream, arrived: &Arrived) -> std::io::Result<()> {
    let mut reader = BufReader::new(stream.try_clone()?);
    let (mut first, mut length) = (String::new(), 0);
    reader.read_line(&mut first)?;
    loop {
        let mut line = String::new();
        reader.read_line(&mut line)?;
        if let Some(value) = line.to_ascii_lowercase().strip_prefix("content-length:") {
            length = value.trim().parse().expect("a number");
        }
        if line.trim().is_empty() {
            break;
        }
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body)?;
    let text = if first.starts_with("POST") { String::from_utf8(body).expect("text") } else { first.trim().to_owned() };
    arrived.lock().expect("no panic").push(text);
    (&stream).write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
}

fn smtp(stream: TcpStream, arrived: &Arrived) -> std::io::Result<()> {
    let mut lines = BufReader::new(stream.try_clone()?).lines();
    let say = |text: &str| (&stream).write_all(format!("{text}\r\n").as_bytes());
    say("220 sink ESMTP")?;
    while let Some(line) = lines.next().transpose()? {
        match line.split(' ').next().unwrap_or_default() {
            "EHLO" => say("250 sink")?,
            "DATA" => {
                say("354 go on")?;
                let mail: Vec<String> = lines.by_ref().map_while(Result::ok).take_while(|line| line != ".").collect();
                arrived.lock().expect("no panic").push(mail.join("\n"));
                say("250 taken")?;
            }
            "QUIT" => return say("221 bye"),
            _ => say("250 well")?,
        }
    }
    Ok(())
}
