//! The environment of the server, in addition to its configuration.

use super::ServeArgs;
use crate::exit::Failure;
use crate::source_options::CommandLineOptions;
use std::sync::Arc;
use weft_block::ErrorKind;
use weft_block::limit::Limit;
use weft_endpoint::health::HealthStore;
use weft_endpoint::reservations::ReservationTable;
use weft_endpoint::{ConnectOptions, Control};
use weft_server::config::desired::DesiredLimit;
use weft_server::config::{Desired, SourceOptions};
use weft_server::management::place::ControlSocket;
use weft_server::{Environment, ServerNotice, psk};

impl ServeArgs {
    /// What the server is given.
    pub(super) fn environment(
        &self,
        desired: &Desired,
        control: &Control,
        on_event: Arc<dyn Fn(ServerNotice) + Send + Sync>,
    ) -> Result<Environment, Failure> {
        Ok(Environment {
            connect: self.connect_options(desired, control)?,
            file: self.config.clone(),
            source_options: Arc::new(CommandLineOptions),
            host_limits: self.host_limits()?,
            referrals: self.announce.referrals().to_vec(),
            discovery_nqn: self.announce.discovery_nqn().cloned(),
            control_socket: Some(self.control_socket(desired)),
            metrics: self.metrics.config(),
            takeover: self.takeover.takeover(self.security.insecure()),
            goes_on: true,
            group: self.group.joining()?,
            reservations: ReservationTable::of_this_user(),
            health: HealthStore::of_this_user(),
            on_event,
            front: None,
        })
    }

    /// The control socket that is asked for, or one that is named by the process.
    fn control_socket(&self, desired: &Desired) -> ControlSocket {
        let given = self.control.as_deref().or(desired.name.as_deref()).or(self.takeover.from());
        let own = || format!("serve-{}", std::process::id());
        ControlSocket { is_required: given.is_some(), place: given.map_or_else(own, str::to_owned) }
    }

    /// How sources are opened. By default a remote one has as many connections as there are loops.
    fn connect_options(
        &self,
        desired: &Desired,
        control: &Control,
    ) -> Result<ConnectOptions, Failure> {
        let queues = u16::try_from(desired.loops.count()).unwrap_or(u16::MAX);
        match &self.config {
            Some(_) => Ok(CommandLineOptions.options(&desired.connect, queues, control)?),
            None => self.source_options(queues, control),
        }
    }

    /// Options of connections to sources: `--tls` is about those that this server accepts.
    fn source_options(&self, queues: u16, control: &Control) -> Result<ConnectOptions, Failure> {
        let secrets = self.security.source_secrets()?;
        let mut options = self.connect.options_with(queues, control, secrets)?;
        let keys = self.source_tls_key_file.as_deref();
        options.tls.psk = keys
            .map(|file| psk::required(Some(file), None).map(|keys| self.connect.placed(keys)))
            .transpose()?;
        options.tls.concat = self.security.source_concat();
        if options.tls.concat && options.secrets.host.is_none() {
            let text =
                "--source-concat needs the secret of this server: give --source-dhchap-secret-file";
            return Err(Failure::of(ErrorKind::Usage, text));
        }
        Ok(options)
    }

    /// `--host-limit`.
    fn host_limits(&self) -> Result<Vec<DesiredLimit>, Failure> {
        let parse = |given: &String| -> Result<DesiredLimit, Failure> {
            let wrong =
                |why: String| Failure::of(ErrorKind::Usage, format!("--host-limit {given}: {why}"));
            let (host, limit) = given
                .split_once('=')
                .ok_or_else(|| wrong("use HOST=iops=10k, HOST=bw=100MB or both".into()))?;
            Ok(DesiredLimit { host: host.to_owned(), limit: Limit::parse(limit).map_err(wrong)? })
        };
        self.host_limit.iter().map(parse).collect()
    }
}
