//! Requests of a hostile client of the API, made from a string of choices.
//!
//! `docs/openapi.json` says what can be asked and sent. Most requests follow it, so that they get far; some of their values are
//! of another kind, and some of their bytes are damaged.

use super::stream::Choices;
use serde_json::{Map, Value, json};

const DOCUMENT: &str = include_str!("../../../../docs/openapi.json");
/// A value that nests deeper is left empty.
const DEPTH_MAX: usize = 6;

/// A request on its way.
pub struct Request {
    pub bytes: Vec<u8>,
    /// Bytes were damaged: it may ask for more than comes.
    pub is_damaged: bool,
}

/// The operations of the API, and the names and paths that mean something on one machine.
pub struct Operations {
    document: Value,
    /// Path, method.
    all: Vec<(String, String)>,
    words: Vec<String>,
}

impl Operations {
    /// All but those that take longer than a hang by their nature, and those that end what the client may do itself:
    /// measurements, and logins, of which ten wrong ones lock a user out.
    pub fn new(words: &[String]) -> Self {
        let document: Value = serde_json::from_str(DOCUMENT).expect("docs/openapi.json");
        let paths = document["paths"].as_object().expect("paths").iter();
        let of_path = |(path, methods): (&String, &Value)| -> Vec<(String, String)> {
            let methods = methods.as_object().expect("methods").keys();
            methods.map(|method| (path.clone(), method.to_uppercase())).collect()
        };
        let is_left_out = |path: &str, method: &str| {
            method == "POST" && (path.ends_with("/session") || path.ends_with("/limits") || path.ends_with("/price"))
        };
        let all = paths.flat_map(of_path).filter(|(path, method)| !is_left_out(path, method)).collect();
        let odd = ["", "0", "5", "raid", "../../etc/passwd", "/dev/null", "\u{202e}\n\0", "internal:4096", "tank:0"];
        let words = words.iter().cloned().chain(odd.map(str::to_owned)).collect();
        Self { document, all, words }
    }

    fn word(&self, choices: &mut Choices) -> String {
        match choices.below(24) {
            23 => "w".repeat(choices.below(70_000) as usize),
            22 => (0..choices.below(40)).map(|_| char::from(choices.byte())).collect(),
            _ => self.words[choices.below(self.words.len() as u64) as usize].clone(),
        }
    }

    /// A request that is as it should be.
    pub fn post(&self, path: &str, body: &Value, authorization: &str) -> Request {
        let (template, _) =
            self.all.iter().find(|(known, method)| known.ends_with(path) && method == "POST").expect("it is described");
        let body = body.to_string();
        let head = format!(
            "host: localhost\r\ncontent-type: application/json\r\nconnection: close\r\ncontent-length: {}\r\n\r\n",
            body.len()
        );
        Request { bytes: format!("POST {template} HTTP/1.1\r\n{authorization}{head}{body}").into_bytes(), is_damaged: false }
    }

    /// One request. `authorization`: the line with the token of its user, which no damage meets. `plan`: the token of a plan.
    pub fn request(&self, choices: &mut Choices, authorization: &str, plan: Option<&str>) -> Request {
        let (template, method) = &self.all[choices.below(self.all.len() as u64) as usize];
        let operation = &self.document["paths"][template][method.to_lowercase()];
        let parts =
            template.split('/').map(|part| if part.starts_with('{') { encoded(&self.word(choices)) } else { part.into() });
        let mut path = parts.collect::<Vec<String>>().join("/");
        for (index, parameter) in operation["parameters"].as_array().into_iter().flatten().enumerate() {
            if parameter["in"] == "query" && !choices.rarely(3) {
                let value = self.value(&parameter["schema"], choices, plan, 0);
                let value = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
                let sign = if index == 0 { '?' } else { '&' };
                path += &format!("{sign}{}={}", parameter["name"].as_str().unwrap_or_default(), encoded(&value));
            }
        }
        let method =
            if choices.rarely(24) { choices.pick(&["GET", "HEAD", "PUT", "DELETE", "PATCH", "OPTIONS"]) } else { method };
        let schema = &operation["requestBody"]["content"]["application/json"]["schema"];
        let mut body = match schema {
            Value::Null => Vec::new(),
            _ if choices.rarely(24) => vec![b'['; choices.pick(&[10, 1000, 300_000])],
            schema => self.value(schema, choices, plan, 0).to_string().into_bytes(),
        };
        let media = if choices.rarely(24) { "text/plain" } else { "application/json" };
        let length = body.len();
        let mut head = format!("host: localhost\r\ncontent-type: {media}\r\nconnection: close\r\ncontent-length: {length}\r\n");
        if choices.rarely(24) {
            let origin = self.word(choices).replace(['\r', '\n', '\0'], "");
            head += &format!("origin: {origin}\r\nlast-event-id: {origin}\r\ncookie: stria_session={origin}\r\n");
        }
        let mut head = (head + "\r\n").into_bytes();
        let mut start = format!("{method} {path} HTTP/1.1\r\n").into_bytes();
        let is_damaged = choices.rarely(6);
        if is_damaged {
            for part in [&mut start, &mut head, &mut body] {
                damage(part, choices);
            }
        }
        Request { bytes: [&start, authorization.as_bytes(), &head, &body].concat(), is_damaged }
    }

    /// A value as the schema has it, mostly.
    fn value(&self, schema: &Value, choices: &mut Choices, plan: Option<&str>, depth: usize) -> Value {
        if choices.rarely(24) {
            let odd = [json!(null), json!(-1), json!(1e308), json!(u64::MAX), json!(true), json!([[]]), json!({"a": {}})];
            return odd[choices.below(odd.len() as u64) as usize].clone();
        }
        if depth > DEPTH_MAX {
            return Value::Null;
        }
        if let Some(target) = schema["$ref"].as_str() {
            let name = target.rsplit('/').next().unwrap_or_default();
            return self.value(&self.document["components"]["schemas"][name], choices, plan, depth + 1);
        }
        for key in ["oneOf", "anyOf", "allOf", "enum"] {
            if let Some(all) = schema[key].as_array().filter(|all| !all.is_empty()) {
                let one = &all[choices.below(all.len() as u64) as usize];
                return if key == "enum" { one.clone() } else { self.value(one, choices, plan, depth + 1) };
            }
        }
        if let Some(constant) = schema.get("const") {
            return constant.clone();
        }
        let kind = match &schema["type"] {
            Value::Array(kinds) => kinds[choices.below(kinds.len() as u64) as usize].as_str(),
            kind => kind.as_str(),
        };
        match kind {
            Some("object") => self.object(schema, choices, plan, depth),
            Some("array") => {
                let count = choices.pick(&[2, 1, 0, 3, 4, 500]);
                (0..count).map(|_| self.value(&schema["items"], choices, plan, depth + 1)).collect()
            }
            Some("string") => json!(self.word(choices)),
            Some("integer" | "number") => {
                let some = [0, 1, 2, 100, 512, 4096, 65_536, 1 << 20, 1 << 40, 1 << 63, u64::MAX];
                json!(choices.pick(&some))
            }
            Some("boolean") => json!(choices.rarely(2)),
            _ => Value::Null,
        }
    }

    fn object(&self, schema: &Value, choices: &mut Choices, plan: Option<&str>, depth: usize) -> Value {
        let required = |name: &str| schema["required"].as_array().is_some_and(|all| all.iter().any(|one| one == name));
        let mut object = Map::new();
        for (name, schema) in schema["properties"].as_object().into_iter().flatten() {
            if choices.rarely(if required(name) { 32 } else { 2 }) {
                continue;
            }
            let value = match plan {
                Some(plan) if name == "token" => json!(plan),
                _ => self.value(schema, choices, plan, depth + 1),
            };
            object.insert(name.clone(), value);
        }
        if schema["additionalProperties"].is_object() {
            object.insert(self.word(choices), self.value(&schema["additionalProperties"], choices, plan, depth + 1));
        }
        Value::Object(object)
    }
}

fn encoded(text: &str) -> String {
    text.bytes()
        .map(|byte| if byte.is_ascii_alphanumeric() { char::from(byte).to_string() } else { format!("%{byte:02x}") })
        .collect()
}

/// Changes some bytes, cuts the end, or doubles a part.
fn damage(bytes: &mut Vec<u8>, choices: &mut Choices) {
    for _ in 0..choices.below(3) {
        let at = choices.below(bytes.len() as u64) as usize;
        if let Some(byte) = bytes.get_mut(at) {
            *byte = choices.byte();
        }
    }
    match choices.below(8) {
        7 => bytes.truncate(choices.below(bytes.len() as u64 + 1) as usize),
        6 => {
            let from = choices.below(bytes.len() as u64 + 1) as usize;
            bytes.extend_from_within(from..);
        }
        _ => {}
    }
}
