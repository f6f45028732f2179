//! A connection for one verb.

use super::refusal;
use crate::commands::identify::active_namespaces;
use crate::process::exit::Failure;
use weft_block::ErrorKind;
use weft_endpoint::ConnectOptions;
use weft_endpoint::source::nvme::{self, AdminSession, CommandData};
use weft_endpoint::url::NvmeUrl;
use weft_proto::nvme::cqe::Cqe;
use weft_proto::nvme::sqe::Sqe;
use weft_proto::nvme::types::Nsid;

/// An association, and the name of what it is with.
pub struct ConnectedSession {
    pub session: Box<dyn AdminSession>,
    /// The subsystem's URL, which stands where nvme-cli prints the name of the device.
    pub name: String,
    /// The namespace that was named.
    nsid: Option<Nsid>,
}

impl ConnectedSession {
    /// Connects to the subsystem of a URL.
    pub fn new(url: NvmeUrl, options: &ConnectOptions) -> Result<Self, Failure> {
        let nsid = url.nsid;
        let url = NvmeUrl { nsid: None, ..url };
        Ok(Self { session: nvme::connect(&url, options)?, name: url.to_string(), nsid })
    }

    /// The namespace that an option or the URL names, or else all.
    pub fn namespace_or_all(&self, given: Option<u32>) -> Nsid {
        given.map(Nsid).or(self.nsid).unwrap_or(Nsid::ALL)
    }

    /// The namespace that an option or the URL names, or else the first active one.
    pub fn namespace(&self, given: Option<u32>) -> Result<Nsid, Failure> {
        if let Some(nsid) = given.filter(|nsid| *nsid != 0).map(Nsid).or(self.nsid) {
            return Ok(nsid);
        }
        active_namespaces(&*self.session)?.first().copied().ok_or_else(|| {
            let text = format!("{}: the subsystem has no active namespace", self.name);
            Failure::of(ErrorKind::NotFound, text)
        })
    }

    /// Runs an admin command that has to succeed.
    pub fn admin(
        &self,
        what: &str,
        sqe: Sqe,
        data: CommandData,
    ) -> Result<(Cqe, Vec<u8>), Failure> {
        let (cqe, data) = self.session.admin(sqe, data)?;
        refusal::check(&self.name, what, &cqe)?;
        Ok((cqe, data))
    }

    /// Runs an I/O command that has to succeed.
    pub fn io(&self, what: &str, sqe: Sqe, data: CommandData) -> Result<(Cqe, Vec<u8>), Failure> {
        let (cqe, data) = self.session.io(sqe, data)?;
        refusal::check(&self.name, what, &cqe)?;
        Ok((cqe, data))
    }

    /// The failure of a structure that does not follow the specification.
    pub fn malformed(&self, error: &dyn std::fmt::Display) -> Failure {
        let text = format!("{}: the controller sent a malformed structure: {error}", self.name);
        Failure::of(ErrorKind::Protocol, text)
    }
}
