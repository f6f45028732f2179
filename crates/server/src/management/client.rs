//! Asking a server.

use super::protocol::{ManagementAnswer, ManagementRequest, RequestFault, VERSION};
use super::server::system;
use crate::limits::{CONTROL_ANSWER_BYTES_MAX, CONTROL_ANSWER_S, CONTROL_CONNECT_S};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use std::io::{BufRead, BufReader, Read, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;
use weft_block::waiting::{self, OngoingWait};
use weft_block::{Error, ErrorKind};

/// A connection to a server.
pub struct ManagementClient {
    stream: BufReader<system::Stream>,
    path: PathBuf,
    id: u64,
}

impl ManagementClient {
    /// Connects to the server at `path`.
    pub fn connect(path: &Path) -> Result<Self, Error> {
        let failed = |e: std::io::Error| {
            let hint = match e.kind() {
                std::io::ErrorKind::PermissionDenied => {
                    "only the user that runs the server, and root, may ask it"
                }
                std::io::ErrorKind::TimedOut | std::io::ErrorKind::WouldBlock => {
                    "it is busy, or hangs"
                }
                _ => "`weft serve` starts one, and --control names it",
            };
            Error::io(format!("no server answers at {}: {e}; {hint}", path.display()), e)
        };
        let _waiting = waiting_for(path);
        let limit = Duration::from_secs(CONTROL_CONNECT_S);
        let stream = system::connect(path, limit).map_err(failed)?;
        let limit = Duration::from_secs(CONTROL_ANSWER_S);
        system::limit(&stream, limit, limit).map_err(failed)?;
        Ok(Self { stream: BufReader::new(stream), path: path.to_owned(), id: 0 })
    }

    /// Asks, and waits for the answer.
    pub fn ask<R: DeserializeOwned>(
        &mut self,
        method: &str,
        params: impl Serialize,
    ) -> Result<R, Error> {
        Ok(self.try_ask(method, params)??)
    }

    /// Like [`ManagementClient::ask`], and tells the server's refusals apart.
    pub fn try_ask<R: DeserializeOwned>(
        &mut self,
        method: &str,
        params: impl Serialize,
    ) -> Result<Result<R, RequestFault>, Error> {
        let strange = |why: String| {
            Error::new(
                ErrorKind::Protocol,
                format!("the server at {} sent no proper answer: {why}", self.path.display()),
            )
        };
        let unusual = |e: serde_json::Error| strange(e.to_string());
        self.id += 1;
        let params = serde_json::to_value(params).map_err(unusual)?;
        let request = ManagementRequest {
            version: VERSION,
            id: self.id.into(),
            method: method.to_owned(),
            params,
        };
        let mut line = serde_json::to_vec(&request).map_err(unusual)?;
        line.push(b'\n');
        let lost =
            |e| Error::io(format!("the server at {} does not answer: {e}", self.path.display()), e);
        let _waiting = waiting_for(&self.path);
        // A server that refuses a client says so without waiting for its request.
        let sent = self.stream.get_mut().write_all(&line);
        let mut answer = String::new();
        if (&mut self.stream).take(CONTROL_ANSWER_BYTES_MAX).read_line(&mut answer).map_err(lost)?
            == 0
        {
            sent.map_err(lost)?;
            return Err(strange("it closed the connection".into()));
        }
        let ManagementAnswer { result, error, .. } =
            serde_json::from_str(&answer).map_err(unusual)?;
        match error {
            Some(fault) => Ok(Err(fault)),
            None => serde_json::from_value(result.unwrap_or(Value::Null)).map(Ok).map_err(unusual),
        }
    }
}

fn waiting_for(path: &Path) -> OngoingWait {
    waiting::begin(|| format!("the server at {} to answer", path.display()))
}
