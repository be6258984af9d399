//! Paths of the API: each declared once, for the server that answers it and for the document that describes it.
//!
//! A route is a function on [`Call`]. The types of its input and answer are the function's own, so `docs/openapi.json` cannot say
//! anything else than what is read and sent.

use super::auth::Caller;
use super::parts::Rest;
use super::types::Role;
use crate::api::{ApiError, ApiErrorKind, ErrorBody};
use axum::http::{Method, StatusCode};
use schemars::generate::{SchemaGenerator, SchemaSettings};
use schemars::{JsonSchema, Schema};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value, json};
use std::sync::Arc;

/// A request that may be carried out.
pub struct Call<I> {
    /// The daemon's side.
    pub rest: Arc<Rest>,
    /// The user.
    pub caller: Caller,
    /// The part of the path in braces; empty if there is none.
    pub name: String,
    /// Query or body.
    pub input: I,
}

/// What a route reads besides its path.
pub trait Input: Sized + Send + 'static {
    /// Reads it.
    ///
    /// # Errors
    /// Why it is invalid.
    fn read(query: &str, body: &[u8]) -> Result<Self, ApiError>;
    /// Describes it: parameters, or the schema of a body.
    fn document(generator: &mut SchemaGenerator) -> InputDocument;
}

/// The description of an input.
pub enum InputDocument {
    /// Nothing is read.
    Nothing,
    /// The query has these keys.
    Query(Schema),
    /// The body is JSON.
    Body(Schema),
}

/// A route that reads nothing.
pub struct Nothing;
/// A route that reads the query.
pub struct Query<T>(pub T);
/// A route that reads a body of JSON.
pub struct Body<T>(pub T);

fn invalid(what: &str, error: &dyn std::fmt::Display) -> ApiError {
    ApiError::new(ApiErrorKind::Invalid, format!("the {what} is invalid: {error}; see /api/v1/openapi.json"))
}

impl Input for Nothing {
    fn read(_: &str, _: &[u8]) -> Result<Self, ApiError> {
        Ok(Self)
    }
    fn document(_: &mut SchemaGenerator) -> InputDocument {
        InputDocument::Nothing
    }
}

impl<T: DeserializeOwned + JsonSchema + Send + 'static> Input for Query<T> {
    fn read(query: &str, _: &[u8]) -> Result<Self, ApiError> {
        serde_urlencoded::from_str(query).map(Self).map_err(|error| invalid("query", &error))
    }
    fn document(generator: &mut SchemaGenerator) -> InputDocument {
        InputDocument::Query(T::json_schema(generator))
    }
}

impl<T: DeserializeOwned + JsonSchema + Send + 'static> Input for Body<T> {
    fn read(_: &str, body: &[u8]) -> Result<Self, ApiError> {
        serde_json::from_slice(body).map(Self).map_err(|error| invalid("body", &error))
    }
    fn document(generator: &mut SchemaGenerator) -> InputDocument {
        InputDocument::Body(generator.subschema_for::<T>())
    }
}

/// A request before its input was read.
pub struct RawCall {
    /// The daemon's side.
    pub rest: Arc<Rest>,
    /// The user.
    pub caller: Caller,
    /// The part of the path in braces.
    pub name: String,
    /// The query.
    pub query: String,
    /// The body.
    pub body: Vec<u8>,
}

type Work = Box<dyn Fn(RawCall) -> Result<Vec<u8>, ApiError> + Send + Sync>;
type Describe = fn(&mut SchemaGenerator, &mut SchemaGenerator) -> (InputDocument, Schema);

/// A path of the API.
pub struct Route {
    /// The method.
    pub method: Method,
    /// The path below `/api/v1`, with one part in braces at most.
    pub path: &'static str,
    /// The least role.
    pub role: Role,
    /// The status of an answer that is no refusal.
    pub status: StatusCode,
    summary: &'static str,
    /// The work, which may block.
    pub work: Work,
    describe: Describe,
}

/// Declares a route.
pub fn route<I: Input, A: Serialize + JsonSchema + 'static>(
    method: Method,
    path: &'static str,
    role: Role,
    summary: &'static str,
    work: fn(Call<I>) -> Result<A, ApiError>,
) -> Route {
    let work: Work = Box::new(move |RawCall { rest, caller, name, query, body }| {
        let answer = work(Call { rest, caller, name, input: I::read(&query, &body)? })?;
        serde_json::to_vec(&answer).map_err(|error| ApiError::new(ApiErrorKind::Failed, error.to_string()))
    });
    let describe: Describe = |inputs, answers| (I::document(inputs), answers.subschema_for::<A>());
    let status =
        if matches!(path, "/jobs" | "/actions") && method == Method::POST { StatusCode::ACCEPTED } else { StatusCode::OK };
    Route { method, path, role, status, summary, work, describe }
}

impl Route {
    /// The part of `path` that stands where this route has braces; empty if it has none. `None`: the path is another one.
    pub fn matches(&self, path: &str) -> Option<String> {
        let (mut own, mut asked, mut name) = (self.path.split('/'), path.split('/'), String::new());
        loop {
            match (own.next(), asked.next()) {
                (None, None) => return Some(name),
                (Some(own), Some(asked)) if own.starts_with('{') && !asked.is_empty() => {
                    name = percent_encoding::percent_decode_str(asked).decode_utf8().ok()?.into_owned();
                }
                (Some(own), Some(asked)) if own == asked => {}
                _ => return None,
            }
        }
    }
}

fn generator(is_answer: bool) -> SchemaGenerator {
    let settings = SchemaSettings::draft2020_12().with(|settings| {
        settings.definitions_path = "/components/schemas".into();
        settings.meta_schema = None;
    });
    // What is sent has all of its keys; what is read may leave out those with a default.
    if is_answer { settings.for_serialize() } else { settings.for_deserialize() }.into_generator()
}

/// The API as OpenAPI 3.1 describes it.
pub fn document(routes: &[Route], extra: Vec<(&str, Value)>) -> Value {
    let (mut inputs, mut answers) = (generator(false), generator(true));
    let error = answers.subschema_for::<ErrorBody>();
    let mut paths = Map::new();
    for route in routes {
        let (input, answer) = (route.describe)(&mut inputs, &mut answers);
        let mut parameters = Vec::new();
        if let Some((_, rest)) = route.path.split_once('{') {
            let name = rest.split('}').next().unwrap_or_default();
            parameters.push(json!({"name": name, "in": "path", "required": true, "schema": {"type": "string"}}));
        }
        let mut operation = json!({
            "summary": route.summary,
            "operationId": operation_id(route),
            "x-role": route.role.word(),
            "responses": {
                route.status.as_str(): {"description": "the answer", "content": {"application/json": {"schema": answer}}},
                "default": {"description": "a refusal", "content": {"application/json": {"schema": error}}},
            },
        });
        match input {
            InputDocument::Nothing => {}
            InputDocument::Query(schema) => {
                let properties = schema.get("properties").and_then(Value::as_object).cloned().unwrap_or_default();
                for (name, mut schema) in properties {
                    let description = schema.as_object_mut().and_then(|schema| schema.remove("description"));
                    parameters.push(json!({"name": name, "in": "query", "description": description, "schema": schema}));
                }
            }
            InputDocument::Body(schema) => {
                let content = json!({"application/json": {"schema": named_as_input(schema.to_value())}});
                operation["requestBody"] = json!({"required": true, "content": content});
            }
        }
        if !parameters.is_empty() {
            operation["parameters"] = parameters.into();
        }
        let path = paths.entry(format!("/api/v1{}", route.path)).or_insert_with(|| json!({}));
        path[route.method.as_str().to_lowercase()] = operation;
    }
    paths.extend(extra.into_iter().map(|(path, operation)| (path.to_owned(), operation)));
    let mut schemas = answers.take_definitions(true);
    for (name, schema) in inputs.take_definitions(true) {
        schemas.insert(format!("{name}Input"), named_as_input(schema));
    }
    json!({
        "openapi": "3.1.0",
        "info": {
            "title": "Stria",
            "version": "1",
            "description": "The API of stria daemon. Keys may be added to answers within this version; none is removed or changes its meaning.",
            "license": {"name": "Apache-2.0 OR MIT"},
        },
        "security": [{"peer": []}, {"token": []}, {"session": []}, {"certificate": []}],
        "paths": paths,
        "components": {
            "schemas": schemas,
            "securitySchemes": {
                "token": {"type": "http", "scheme": "bearer", "description": "a token of `stria token create`"},
                "session": {"type": "apiKey", "in": "cookie", "name": super::auth::COOKIE,
                    "description": "begun by POST /api/v1/session. Its name goes on with eight digits of the daemon's own, and with the port of the host that the request names: stria_session_0a1b2c3d_8443. What changes something also needs the header x-stria-csrf"},
                "certificate": {"type": "mutualTLS", "description": "a client certificate that `stria token create --certificate` knows"},
                "peer": {"type": "apiKey", "in": "header", "name": "host",
                    "description": "on the unix socket the kernel names the user: root is admin, the group of [api] may operate"},
            },
        },
    })
}

/// References to schemas of inputs, which have names of their own: keys with a default are not required there.
fn named_as_input(mut schema: Value) -> Value {
    match &mut schema {
        Value::Object(map) => {
            for (key, value) in map.iter_mut() {
                match value {
                    Value::String(target) if key == "$ref" => target.push_str("Input"),
                    value => *value = named_as_input(value.take()),
                }
            }
        }
        Value::Array(list) => list.iter_mut().for_each(|value| *value = named_as_input(value.take())),
        _ => {}
    }
    schema
}

/// `get_arrays_name`
fn operation_id(route: &Route) -> String {
    let words = route.path.split(['/', '{', '}']).filter(|word| !word.is_empty());
    [route.method.as_str().to_lowercase().as_str()].into_iter().chain(words).collect::<Vec<_>>().join("_")
}
