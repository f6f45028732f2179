//! What is found wrong before anything starts: above all before another server ends because this
//! one takes over from it.

use super::ServeArgs;
use crate::exit::Failure;
use std::net::SocketAddr;
use std::path::Path;
use weft_block::limit::Limit;
use weft_block::mirror::MirrorUrl;
use weft_block::{Error, ErrorKind, Refusal, grammar};
use weft_endpoint::Control;
use weft_endpoint::export::listen_address;
use weft_endpoint::source::discovered;
use weft_server::config::Desired;
use weft_server::management::place;

/// Options that a configuration file has instead: none of them goes with `--config`.
pub(super) const OF_FILE: [&str; 68] = [
    "source",
    "listen",
    "name",
    "nqn",
    "allow_host",
    "threads",
    "cpus_allowed",
    "poll",
    "read_only",
    "disk_io",
    "pool",
    "no_reservations",
    "disk_timeout",
    "exit_on_loss",
    "iqn",
    "allow_initiator",
    "login_user",
    "login_secret_file",
    "login_initiator",
    "login_target_user",
    "login_target_secret_file",
    "hostnqn",
    "hostid",
    "hdr_digest",
    "data_digest",
    "nr_io_queues",
    "queue_size",
    "keep_alive_tmo",
    "connect_timeout",
    "tls",
    "source_tls_key_file",
    "tls_key_file",
    "no_kernel_tls",
    "keyring",
    "tls_key",
    "tls_key_identity",
    "concat",
    "source_concat",
    "tls_cert_file",
    "tls_cert_key_file",
    "tls_ca_file",
    "io_timeout",
    "quiesce_time",
    "rdma_shared_key",
    "dhchap_secret_file",
    "dhchap_ctrl_secret_file",
    "dhchap_secret",
    "dhchap_ctrl_secret",
    "dhchap_hash",
    "dhchap_dhgroup",
    "dhchap_discovery",
    "source_dhchap_secret_file",
    "source_dhchap_ctrl_secret_file",
    "initiator_name",
    "chap_user",
    "chap_secret_file",
    "target_chap_user",
    "target_chap_secret_file",
    "chap_secret",
    "path",
    "ctrl_loss_tmo",
    "reconnect_delay",
    "fast_io_fail_tmo",
    "iopolicy",
    "failover",
    "unflushed",
    "only_writer",
    "reserve",
];

impl ServeArgs {
    /// The control socket that is asked for, or the name of one.
    pub(super) fn control_name<'a>(&'a self, desired: &'a Desired) -> Option<&'a str> {
        self.control.as_deref().or(desired.name.as_deref()).or(self.takeover.from())
    }

    /// Checks what can be checked while another server still has the devices and addresses; gives
    /// the addresses at which this one is to listen.
    pub(super) fn check(
        &self,
        desired: &Desired,
        control: &Control,
    ) -> Result<Vec<SocketAddr>, Failure> {
        if let Some(given) = self.control_name(desired) {
            place::check(&place::named(given)?)?;
        }
        self.host_limits()?;
        desired.iscsi.check()?;
        self.opener(desired, 1, control)?
            .check(desired.namespaces().map(|(_, namespace)| namespace))?;
        for (_, namespace) in desired.namespaces() {
            weft_endpoint::check(&namespace.source)?;
            namespace
                .paths
                .iter()
                .filter(|path| discovered::asks(path).is_none())
                .try_for_each(|path| weft_endpoint::check(path))?;
            is_there(&namespace.source)?;
        }
        let places = desired.listen.iter().map(|url| listen_address(url, &desired.tls));
        Ok(places.collect::<Result<Vec<_>, _>>()?.into_iter().flatten().collect())
    }

    /// `--host-limit`, each with its host.
    pub(super) fn host_limits(&self) -> Result<Vec<(&str, Limit)>, Failure> {
        let parse = |given: &'_ String| -> Result<Limit, Failure> {
            let wrong =
                |why: String| Failure::of(ErrorKind::Usage, format!("--host-limit {given}: {why}"));
            let (_, limit) = given
                .split_once('=')
                .ok_or_else(|| wrong("use HOST=iops=10k, HOST=bw=100MB or both".into()))?;
            Limit::parse(limit).map_err(wrong)
        };
        let each = self
            .host_limit
            .iter()
            .map(|given| Ok((given.split('=').next().unwrap_or_default(), parse(given)?)));
        each.collect()
    }
}

/// Refuses a file that does not exist and is not to be made. A mirror decides itself whether it
/// starts without a leg.
fn is_there(source: &str) -> Result<(), Error> {
    if MirrorUrl::parse(source)?.is_some() {
        return Ok(());
    }
    for source in grammar::sources(source) {
        let is_made = grammar::options(source.url).1.iter().any(|(name, _)| *name == "size");
        let Some(path) = grammar::path(source.url).filter(|_| !is_made) else { continue };
        if std::fs::metadata(Path::new(path))
            .is_err_and(|e| e.kind() == std::io::ErrorKind::NotFound)
        {
            return Err(Error::refused(source.url, Refusal::NoSuchFile));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::connection::ConnectArgs;
    use crate::login::LoginArgs;
    use clap::{Args, Command};

    #[test]
    fn no_option_of_a_connection_or_login_is_ignored_beside_a_file() {
        for command in [
            ConnectArgs::augment_args(Command::new("a")),
            LoginArgs::augment_args(Command::new("a")),
        ] {
            for arg in command.get_arguments() {
                assert!(OF_FILE.contains(&arg.get_id().as_str()), "{arg}");
            }
        }
    }

    #[test]
    fn a_file_that_is_not_there_is_found_missing() {
        assert!(is_there("stripe:ram:1MiB,/nonexistent/weft").is_err());
        assert!(
            is_there("readonly:file:/nonexistent/weft").is_err()
                && is_there("/nonexistent/weft,direct=off").is_err()
        );
        for fine in [
            "file:/nonexistent/weft,size=1MiB",
            "ram:1MiB",
            "nvme+tcp://h/nqn.2026-01.example:x",
            ".",
        ] {
            assert!(is_there(fine).is_ok(), "{fine}");
        }
    }
}
