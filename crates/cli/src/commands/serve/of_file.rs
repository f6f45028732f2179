//! The options of `weft serve` that a configuration file has instead.

/// Options that a configuration file has instead: none of them goes with `--config`.
pub const OF_FILE: [&str; 74] = [
    "source",
    "listen",
    "name",
    "nqn",
    "serial",
    "model",
    "max_queues",
    "max_connections",
    "allow_host",
    "threads",
    "cpus_allowed",
    "poll",
    "read_only",
    "disk_io",
    "pool",
    "no_reservations",
    "disk_timeout",
    "slow",
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
    "same_data",
    "ctrl_loss_tmo",
    "reconnect_delay",
    "fast_io_fail_tmo",
    "iopolicy",
    "failover",
    "unflushed",
    "only_writer",
    "reserve",
];

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
}
