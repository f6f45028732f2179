//! The methods of a server, by name.

use super::protocol::{FaultCode, ManagementAnswer, ManagementRequest, RequestFault, VERSION};
use crate::limits::REQUEST_BYTES_MAX;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use std::collections::BTreeMap;
use std::sync::Weak;

/// No parameters.
#[derive(Debug, Default, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct NoParams {}

type Method = Box<dyn Fn(Value) -> Result<Value, RequestFault> + Send + Sync>;

/// A step after an answer has been sent, or when it cannot be sent.
pub type Afterwards = Box<dyn Fn() + Send + Sync>;

/// The methods of a server. They are called on the thread of the client that asks; several may run
/// at a time.
#[derive(Default)]
pub struct Methods {
    all: BTreeMap<&'static str, Method>,
    afterwards: BTreeMap<&'static str, Afterwards>,
}

impl Methods {
    /// Adds a method with its parameters, which deny unknown fields, and its result.
    pub fn add<P: DeserializeOwned, R: Serialize>(
        &mut self,
        name: &'static str,
        method: impl Fn(P) -> Result<R, RequestFault> + Send + Sync + 'static,
    ) -> &mut Self {
        let call = move |params: Value| {
            let params = if params.is_null() { Value::Object(Map::new()) } else { params };
            let params = serde_json::from_value(params).map_err(|e| {
                RequestFault::new(
                    FaultCode::Invalid,
                    format!("the parameters of {name} are wrong: {e}"),
                )
            })?;
            let unshown = |e| {
                RequestFault::new(FaultCode::Io, format!("cannot write the result of {name}: {e}"))
            };
            serde_json::to_value(method(params)?).map_err(unshown)
        };
        self.all.insert(name, Box::new(call));
        self
    }

    /// Adds a method of something that the method does not keep: clients of a control socket can
    /// stay for longer than the server runs.
    pub fn add_of<T: Send + Sync + 'static, P: DeserializeOwned, R: Serialize>(
        &mut self,
        of: &Weak<T>,
        name: &'static str,
        method: impl Fn(&T, P) -> Result<R, RequestFault> + Send + Sync + 'static,
    ) -> &mut Self {
        let of = Weak::clone(of);
        self.add(name, move |params: P| {
            let ended = || RequestFault::new(FaultCode::Refused, "this server has ended");
            method(&*of.upgrade().ok_or_else(ended)?, params)
        })
    }

    /// Adds a method without parameters and result that is answered before it is done: the end of
    /// the server, which no answer outlasts.
    pub fn add_answered_first(
        &mut self,
        name: &'static str,
        method: impl Fn() + Send + Sync + 'static,
    ) -> &mut Self {
        self.afterwards.insert(name, Box::new(method));
        self.add(name, |NoParams {}| Ok(()))
    }

    /// The names, in alphabetical order.
    pub fn names(&self) -> Vec<&'static str> {
        self.all.keys().copied().collect()
    }

    /// Answers one line; returns the step to do afterwards.
    pub fn answer(&self, line: &[u8]) -> (ManagementAnswer, Option<&Afterwards>) {
        if line.len() > REQUEST_BYTES_MAX {
            let text =
                format!("the request is longer than {REQUEST_BYTES_MAX} bytes; send a shorter one");
            return (
                ManagementAnswer::to(
                    Value::Null,
                    Err(RequestFault::new(FaultCode::Malformed, text)),
                ),
                None,
            );
        }
        match serde_json::from_slice::<ManagementRequest>(line) {
            Ok(request) => {
                let afterwards = self.afterwards.get(request.method.as_str());
                let (id, result) = (request.id.clone(), self.call(request));
                let afterwards = afterwards.filter(|_| result.is_ok());
                (ManagementAnswer::to(id, result), afterwards)
            }
            Err(e) => {
                let id = serde_json::from_slice::<Value>(line)
                    .ok()
                    .and_then(|value| value.get("id").cloned());
                let text = format!(
                    "the line is not a request: {e}; send {{\"version\":{VERSION},\"method\":\"server.info\"}}"
                );
                (
                    ManagementAnswer::to(
                        id.unwrap_or_default(),
                        Err(RequestFault::new(FaultCode::Malformed, text)),
                    ),
                    None,
                )
            }
        }
    }

    fn call(&self, request: ManagementRequest) -> Result<Value, RequestFault> {
        if request.version != VERSION {
            let text = format!(
                "this server speaks version {VERSION} of the protocol, not {}",
                request.version
            );
            return Err(RequestFault::new(FaultCode::Version, text));
        }
        let unknown = || {
            let text =
                format!("there is no method \"{}\"; server.info lists the methods", request.method);
            RequestFault::new(FaultCode::UnknownMethod, text)
        };
        self.all.get(request.method.as_str()).ok_or_else(unknown)?(request.params)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[derive(Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Double {
        of: u32,
    }

    fn asked(line: &str) -> Value {
        let mut methods = Methods::default();
        methods.add("double", |Double { of }| Ok(of * 2));
        let (answer, afterwards) = methods.answer(line.as_bytes());
        assert!(afterwards.is_none());
        serde_json::to_value(answer).unwrap()
    }

    #[test]
    fn requests_are_answered_or_refused_with_a_code() {
        let doubled =
            asked(r#"{"version": 1, "id": "a", "method": "double", "params": {"of": 21}}"#);
        assert_eq!(doubled, json!({"version": 1, "id": "a", "result": 42}));
        for (line, id, code) in [
            ("", json!(null), "malformed"),
            ("[]", json!(null), "malformed"),
            (r#"{"id": 5, "method": "double"}"#, json!(5), "malformed"),
            (r#"{"version": 1, "id": 5, "method": "double", "parms": {}}"#, json!(5), "malformed"),
            (r#"{"version": 2, "id": 6, "method": "double"}"#, json!(6), "version"),
            (r#"{"version": 1, "id": 7, "method": "treble"}"#, json!(7), "unknown-method"),
            (r#"{"version": 1, "id": 8, "method": "double"}"#, json!(8), "invalid"),
            (
                r#"{"version": 1, "id": 9, "method": "double", "params": {"of": 1, "by": 2}}"#,
                json!(9),
                "invalid",
            ),
        ] {
            let answer = asked(line);
            assert_eq!((&answer["id"], &answer["error"]["code"]), (&id, &json!(code)), "{line}");
        }
        assert_eq!(asked(&" ".repeat(REQUEST_BYTES_MAX + 1))["error"]["code"], "malformed");
    }

    #[test]
    fn what_ends_the_server_is_answered_first() {
        let mut methods = Methods::default();
        methods.add_answered_first("end", || {});
        let after = |line: &str| methods.answer(line.as_bytes()).1.is_some();
        assert!(after(r#"{"version": 1, "method": "end"}"#));
        assert!(
            !after(r#"{"version": 2, "method": "end"}"#)
                && !after(r#"{"version": 1, "method": "end", "params": {"now": 1}}"#)
        );
    }
}
