//! Access to `weft serve`: its demands on hosts, and a warning of servers that demand nothing.

use crate::args::dhchap::DhchapArgs;
use crate::help::headings::LET_IN;
use crate::process::exit::Failure;
use clap::Args;
use std::path::PathBuf;
use weft_block::ErrorKind;
use weft_endpoint::inventory::{Access, Authentication};
use weft_endpoint::source::HostSecrets;
use weft_server::attach::plan::CommandLine;
use weft_server::config::Desired;
use weft_server::config::desired::DesiredSubsystem;
use weft_server::config::exposure::open_addresses;
use weft_server::dhchap;
use weft_server::secret::again;

/// Options of `weft serve` about who is let in.
#[derive(Args, Debug)]
pub struct SecurityArgs {
    /// Hosts have to authenticate for discovery, too
    #[arg(help_heading = LET_IN, long)]
    dhchap_discovery: bool,
    /// File with the secret with which this server authenticates to the NVMe targets that are its
    /// sources
    #[arg(help_heading = LET_IN, long, value_name = "FILE")]
    source_dhchap_secret_file: Option<PathBuf>,
    /// File with the secret by which these have to prove who they are
    #[arg(help_heading = LET_IN, long, value_name = "FILE")]
    source_dhchap_ctrl_secret_file: Option<PathBuf>,
    /// Connect to sources of NVMe/TCP with TLS and keys that come of that (secure channel
    /// concatenation); --concat is about the hosts of this server
    #[arg(help_heading = LET_IN, long, conflicts_with = "source_tls_key_file")]
    source_concat: bool,
    /// Do not warn of addresses at which hosts need not prove who they are, and take over
    /// (--takeover) from a server that demands more of its hosts
    #[arg(help_heading = LET_IN, long)]
    insecure: bool,
}

impl SecurityArgs {
    /// Returns whether secure channels to sources are concatenated.
    pub fn source_concat(&self) -> bool {
        self.source_concat
    }

    /// Returns whether hosts may go without proof.
    pub fn insecure(&self) -> bool {
        self.insecure
    }

    /// The authentication of hosts of NVMe subsystems.
    pub fn authentication(&self, dhchap: &DhchapArgs) -> Result<Option<Authentication>, Failure> {
        let demanded = dhchap.target()?;
        if demanded.is_none() && self.dhchap_discovery {
            let text =
                "--dhchap-discovery needs the secrets of the hosts: give --dhchap-secret-file";
            return Err(Failure::of(ErrorKind::Usage, text));
        }
        Ok(demanded)
    }

    /// The same for discovery.
    pub fn discovery_authentication(
        &self,
        dhchap: &DhchapArgs,
    ) -> Result<Option<Authentication>, Failure> {
        if self.dhchap_discovery { self.authentication(dhchap) } else { Ok(None) }
    }

    /// The secrets with which this server authenticates to its sources; they are read again from
    /// their files before each association.
    pub fn source_secrets(&self) -> Result<HostSecrets, Failure> {
        let files =
            [self.source_dhchap_secret_file.clone(), self.source_dhchap_ctrl_secret_file.clone()];
        let secrets = of_files(&files)?;
        let all = files.iter().flatten().cloned().collect();
        Ok(HostSecrets { renewal: again(all, move || of_files(&files)), ..secrets })
    }

    /// Warns once of what everybody can reach.
    pub fn warn(&self, desired: &Desired) {
        if !self.insecure
            && let Some(text) = warning(desired)
        {
            tracing::warn!("{text}");
        }
    }
}

/// What is in the files with the secrets of this server and of the targets that are its sources.
fn of_files(files: &[Option<PathBuf>; 2]) -> Result<HostSecrets, Failure> {
    let read = |file: &Option<PathBuf>| file.as_deref().map(dhchap::read).transpose();
    let (host, controller) = (read(&files[0])?, read(&files[1])?);
    if host.is_none() && controller.is_some() {
        let text = "the secret of the targets is of no use without this server's: give --source-dhchap-secret-file with it";
        return Err(Failure::of(ErrorKind::Usage, text));
    }
    dhchap::check_distinct(host.iter(), controller.as_ref())?;
    Ok(HostSecrets { host, controller, ..HostSecrets::default() })
}

/// What is wrong with the addresses, if something is.
fn warning(desired: &Desired) -> Option<String> {
    let open = open_addresses(desired);
    if open.is_empty() {
        return None;
    }
    let who = match open.iter().all(|url| asks_for_names(desired, url)) {
        true => "whoever says that it is one of the hosts that are allowed",
        false => "whoever reaches it",
    };
    let what = "let hosts prove who they are (--dhchap-secret-file, --concat or --tls for NVMe, --login-user for iSCSI, --tls-ca-file for NBD)";
    Some(format!("{}: {who} can use what is served; {what}, or say --insecure", open.join(", ")))
}

/// Whether only those are let in at an address who give one of the names that are allowed. NBD has
/// no names of clients.
fn asks_for_names(desired: &Desired, url: &str) -> bool {
    let asks = |of: &DesiredSubsystem| match url.split("://").next() {
        Some("iscsi") => of.initiators != Access::Any,
        Some("nbd" | "nbds") => false,
        _ => of.hosts != Access::Any,
    };
    desired.subsystems.iter().all(asks)
}

/// The options with which a host of ours proves who it is at a URL, for people to fill in.
pub fn proof(desired: &Desired, url: &str) -> String {
    match url.split("://").next().unwrap_or_default() {
        "iscsi" => chap_proof(desired),
        "nbds" => desired.tls.ca.as_ref().map_or_else(String::new, |_| {
            " --tls-cert-file FILE --tls-cert-key-file FILE".to_owned()
        }),
        scheme if scheme.starts_with("nvme+") => nvme_proof(desired, scheme == "nvme+tcp"),
        _ => String::new(),
    }
}

fn nvme_proof(desired: &Desired, is_tcp: bool) -> String {
    let first = desired.subsystems.first();
    let demanded = first.and_then(|of| of.authentication.as_ref());
    let is_named = first.is_some_and(|of| of.hosts != Access::Any)
        || demanded.is_some_and(|of| of.others.is_empty());
    let options = [
        (is_named, " --hostnqn NQN"),
        (is_tcp && desired.tls.psk.is_some(), " --tls --tls-key-file FILE"),
        (is_tcp && desired.tls.concat, " --concat"),
        (demanded.is_some(), " --dhchap-secret-file FILE"),
        (demanded.is_some_and(|of| of.controller.is_some()), " --dhchap-ctrl-secret-file FILE"),
    ];
    options.into_iter().filter(|(is_needed, _)| *is_needed).map(|(_, option)| option).collect()
}

fn chap_proof(desired: &Desired) -> String {
    let first = desired.subsystems.first();
    let word = |name: &str| CommandLine(vec![name.to_owned()]).to_string();
    let user = desired.iscsi.chap.first().map(|user| word(&user.credentials.name));
    let target = desired.iscsi.chap_target.as_ref().map(|of| word(&of.name));
    [
        first.filter(|of| of.initiators != Access::Any).map(|_| " --initiator-name IQN".to_owned()),
        user.map(|user| format!(" --chap-user {user} --chap-secret-file FILE")),
        target.map(|name| format!(" --target-chap-user {name} --target-chap-secret-file FILE")),
    ]
    .into_iter()
    .flatten()
    .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;
    use weft_proto::iscsi::chap::Credentials;
    use weft_proto::iscsi::target::ChapUser;
    use weft_proto::nvme::auth::DhchapSecret;
    use weft_server::config::{NoSourceOptions, read};

    fn desired(listen: &str, more: &str) -> Desired {
        let text = format!(
            "listen = [\"{listen}\"]\n[[subsystem]]\nnqn = \"nqn.2026-01.example.weft:one\"\n{more}\n\
             [[subsystem.namespace]]\nnsid = 1\nsource = \"null:1MiB\"\n"
        );
        read(&text, "test", (Path::new(""), &NoSourceOptions)).unwrap()
    }

    #[test]
    fn only_what_others_reach_without_a_proof_is_warned_of() {
        for near in [
            "127.0.0.1:4420",
            "nvme+tcp://[::1]:4420",
            "nbd+unix:///?socket=/run/x",
            "nbd://localhost:10809",
        ] {
            assert_eq!(warning(&desired(near, "")), None, "{near}");
        }
        for far in [
            "0.0.0.0:4420",
            "nvme+rdma://192.0.2.1:4420",
            "iscsi://[::]:3260",
            "nbd://host.example:10809",
        ] {
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

    /// The names of one protocol say nothing about another one.
    #[test]
    fn names_count_where_they_are_asked_for() {
        let hosts = "hosts = [\"nqn.2026-01.example.host:one\"]";
        let initiators = "initiators = [\"iqn.2026-01.example:one\"]";
        for (listen, names, asks) in [
            ("iscsi://[::]:3260", hosts, false),
            ("iscsi://[::]:3260", initiators, true),
            ("0.0.0.0:4420", initiators, false),
            ("0.0.0.0:4420", hosts, true),
            ("nbd://host.example:10809", hosts, false),
        ] {
            let text = warning(&desired(listen, names)).unwrap();
            assert_eq!(text.contains("whoever says"), asks, "{listen}, {names}: {text}");
        }
    }

    #[test]
    fn what_a_host_needs_is_in_the_command_for_it() {
        let mut desired = desired("0.0.0.0:4420", "");
        assert_eq!(proof(&desired, "nvme+tcp://192.0.2.1:4420/nqn.x"), "");
        let secret = || DhchapSecret::of_key(&[7; 32], None).unwrap();
        let demanded = Authentication {
            others: vec![secret()],
            controller: Some(secret()),
            ..Authentication::default()
        };
        desired.subsystems[0].authentication = Some(demanded);
        assert_eq!(
            proof(&desired, "nvme+rdma://192.0.2.1:4420/nqn.x"),
            " --dhchap-secret-file FILE --dhchap-ctrl-secret-file FILE"
        );
        desired.subsystems[0].authentication = Some(Authentication::default());
        desired.tls.concat = true;
        assert_eq!(
            proof(&desired, "nvme+tcp://192.0.2.1:4420/nqn.x"),
            " --hostnqn NQN --concat --dhchap-secret-file FILE"
        );
        let iscsi = |desired: &Desired| proof(desired, "iscsi://192.0.2.1/iqn.x/0");
        assert_eq!(iscsi(&desired), "");
        let credentials = Credentials { name: "alice".into(), secret: "0123456789ab".into() };
        desired.iscsi.chap = vec![ChapUser { credentials, initiators: Vec::new() }];
        assert_eq!(iscsi(&desired), " --chap-user alice --chap-secret-file FILE");
    }
}
