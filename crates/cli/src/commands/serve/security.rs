//! Who is let in: what `weft serve` demands of its hosts, and a word about servers that demand nothing.

use super::ServeArgs;
use crate::config::Desired;
use crate::config::check::listen_place;
use crate::config::desired::DesiredSubsystem;
use crate::dhchap_args;
use crate::exit::Failure;
use clap::Args;
use std::path::PathBuf;
use weft_block::ErrorKind;
use weft_endpoint::inventory::{Access, Authentication};
use weft_endpoint::source::HostSecrets;

/// Options of `weft serve` about who is let in.
#[derive(Args, Debug)]
#[command(next_help_heading = "Who is let in")]
pub struct SecurityArgs {
    /// Hosts have to authenticate for discovery, too
    #[arg(long)]
    dhchap_discovery: bool,
    /// File with the secret with which this server authenticates to the NVMe targets that are its sources
    #[arg(long, value_name = "FILE")]
    source_dhchap_secret_file: Option<PathBuf>,
    /// File with the secret by which these have to prove who they are
    #[arg(long, value_name = "FILE")]
    source_dhchap_ctrl_secret_file: Option<PathBuf>,
    /// Do not warn of addresses at which hosts need not prove who they are
    #[arg(long)]
    insecure: bool,
}

impl ServeArgs {
    /// What hosts of NVMe subsystems have to prove.
    pub(super) fn authentication(&self) -> Result<Option<Authentication>, Failure> {
        let demanded = self.connect.dhchap().target()?;
        if demanded.is_none() && self.security.dhchap_discovery {
            let text = "--dhchap-discovery needs the secrets of the hosts: give --dhchap-secret-file";
            return Err(Failure::of(ErrorKind::Usage, text));
        }
        Ok(demanded)
    }

    /// The same for discovery.
    pub(super) fn discovery_authentication(&self) -> Result<Option<Authentication>, Failure> {
        if self.security.dhchap_discovery { self.authentication() } else { Ok(None) }
    }

    /// What this server authenticates with to its sources.
    pub(super) fn source_secrets(&self) -> Result<HostSecrets, Failure> {
        let SecurityArgs { source_dhchap_secret_file, source_dhchap_ctrl_secret_file, .. } = &self.security;
        let read = |file: &Option<PathBuf>| file.as_deref().map(dhchap_args::read).transpose();
        let (host, controller) = (read(source_dhchap_secret_file)?, read(source_dhchap_ctrl_secret_file)?);
        if host.is_none() && controller.is_some() {
            let text = "the secret of the targets is of no use without this server's: give --source-dhchap-secret-file with it";
            return Err(Failure::of(ErrorKind::Usage, text));
        }
        Ok(HostSecrets { host, controller, ..HostSecrets::default() })
    }

    /// Warns once of what everybody can reach.
    pub(super) fn warn(&self, desired: &Desired) {
        if !self.security.insecure
            && let Some(text) = warning(desired)
        {
            tracing::warn!("{text}");
        }
    }
}

/// What is wrong with the addresses, if something is.
fn warning(desired: &Desired) -> Option<String> {
    let is_open = |url: &&String| is_far(url) && !proves(desired, url);
    let open: Vec<&str> = desired.listen.iter().filter(is_open).map(String::as_str).collect();
    if open.is_empty() {
        return None;
    }
    let is_listed = |of: &DesiredSubsystem| of.hosts != Access::Any || of.initiators != Access::Any;
    let who = match desired.subsystems.iter().all(is_listed) {
        true => "whoever says that it is one of the hosts that are allowed",
        false => "whoever reaches it",
    };
    let what =
        "let hosts prove who they are (--dhchap-secret-file or --tls for NVMe, --login-user for iSCSI, --tls-ca-file for NBD)";
    Some(format!("{}: {who} can use what is served; {what}, or say --insecure", open.join(", ")))
}

/// Whether others than this machine may reach a URL to listen at.
fn is_far(url: &str) -> bool {
    let is_name = url.contains("://") && !url.starts_with("nbd+unix:") && !url.contains("://localhost");
    listen_place(url).map_or(is_name, |at| !at.ip().is_loopback())
}

/// Whether hosts have to prove there who they are.
fn proves(desired: &Desired, url: &str) -> bool {
    match url.split("://").next().unwrap_or_default() {
        "iscsi" => !desired.iscsi.chap.is_empty(),
        "nbds" => desired.tls.ca.is_some(),
        "nbd" => false,
        "nvme+tcp" if desired.tls.psk.is_some() => true,
        _ => desired.subsystems.iter().all(|subsystem| subsystem.authentication.is_some()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::read;
    use std::path::Path;

    fn desired(listen: &str, more: &str) -> Desired {
        let text = format!(
            "listen = [\"{listen}\"]\n[[subsystem]]\nnqn = \"nqn.2026-01.example.weft:one\"\n{more}\n\
             [[subsystem.namespace]]\nnsid = 1\nsource = \"null:1MiB\"\n"
        );
        read(&text, "test", Path::new("")).unwrap()
    }

    #[test]
    fn only_what_others_reach_without_a_proof_is_warned_of() {
        for near in ["127.0.0.1:4420", "nvme+tcp://[::1]:4420", "nbd+unix:///?socket=/run/x", "nbd://localhost:10809"] {
            assert_eq!(warning(&desired(near, "")), None, "{near}");
        }
        for far in ["0.0.0.0:4420", "nvme+rdma://192.0.2.1:4420", "iscsi://[::]:3260", "nbd://host.example:10809"] {
            let text = warning(&desired(far, "")).unwrap();
            assert!(text.contains("whoever reaches it") && !text.contains('\n'), "{text}");
        }
        let mut proved = desired("0.0.0.0:4420", "");
        proved.subsystems[0].authentication = Some(Authentication::default());
        assert_eq!(warning(&proved), None);
    }

    #[test]
    fn names_are_no_proof() {
        let listed = desired("0.0.0.0:4420", "hosts = [\"nqn.2026-01.example.host:one\"]");
        assert!(warning(&listed).unwrap().contains("whoever says that it is one of the hosts"));
    }
}
