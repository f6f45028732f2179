//! `weft limits`: every limit, with its value and its meaning.
//!
//! The values are the constants themselves; the descriptions are their doc comments in the
//! `limits.rs` of each crate, and the modules of that.

use crate::process::exit::Failure;
use clap::Args;
use serde_json::json;
use std::fmt::Debug;
use std::io::Write;
use weft_endpoint::limits::{CONNECTIONS_MAX, target_bytes};
use weft_io::limits::POOL_BYTES_DEFAULT;

/// Options of `weft limits`.
#[derive(Args, Debug)]
#[command(after_help = "\
Example:
  weft limits | less")]
pub struct LimitsArgs {
    /// Output format
    #[arg(short = 'o', long, value_enum, default_value_t)]
    output_format: super::list::Listing,
}

/// Name, value and description of one limit.
struct Limit {
    name: &'static str,
    value: String,
    text: String,
}

/// A crate and its limits.
type Limits = (&'static str, Vec<Limit>);

macro_rules! limits {
    ($package:ident, $source:literal: $($name:ident)*) => {
        limits!(@ $package, include_str!(concat!("../../../", $source, "/src/limits.rs")); $($name)*)
    };
    ($package:ident, $source:literal $($module:literal)+: $($name:ident)*) => {{
        let source = concat!(
            $(include_str!(concat!("../../../", $source, "/src/limits/", $module, ".rs")),)*
        );
        limits!(@ $package, source; $($name)*)
    }};
    (@ $package:ident, $source:expr; $($name:ident)*) => {{
        let source = $source;
        (stringify!($package), vec![$(limit(stringify!($name), &$package::limits::$name, source),)*])
    }};
}

/// All limits, by crate. A test compares the names with those in the sources.
fn all() -> [Limits; 12] {
    [
        endpoint(),
        proto(),
        io(),
        tls(),
        ceph(),
        group(),
        block(),
        load(),
        bench(),
        copy(),
        server(),
        cli(),
    ]
}

fn endpoint() -> Limits {
    limits!(weft_endpoint, "connection" "mod" "authentication" "capture" "disks" "paths" "pump":
        RDMA_IN_CAPSULE_BYTES RDMA_EVENTS_PER_TURN RDMA_LENT_PIECES
        RDMA_RECEIVES_BYTES_MAX RDMA_RECEIVES_NEWCOMERS_BYTES RDMA_RECEIVES_GUARANTEED_BYTES
        CONNECTIONS_MAX CONNECTIONS_CONFIGURED_MIN CONNECTIONS_CONFIGURED_MAX NEWCOMERS_MAX
        CONNECTIONS_GUARANTEED GRANT_PARTS GRANT_LEAST RDMA_GRANTED_ENTRIES OTHER_PORTS_MAX
        CONNECTION_BYTES IN_CAPSULE_BYTES FUSED_BYTES_MAX TRANSFER_BYTES_MAX CLOSE_S
        RECONNECT_FIRST_MS RECONNECT_DELAY_S PATH_LOOK_S PATH_PAUSE_MS STRANDED_FIRST_S STRANDED_AGAIN_S STRANDED_AGAIN_S_MAX
        PATH_WAITING_OPS PATH_BATCH_OPS PATH_PROBE_OPS
        PATH_SAMPLE_BYTES PATH_SAMPLE_TRIES PATH_REPEATS_MAX PATH_REFUSALS_MAX RESERVATION_THREADS_MAX RESERVATION_READERS_MAX
        HEALTH_INTERVAL_S HEALTH_FILES_MAX HEALTH_FILE_BYTES_MAX KEPT_RECORD_BYTES_MAX CLAIM_S
        DISK_NAMES_MAX DISK_NAME_BYTES_MAX DISK_PLACES_MAX DISK_NAME_S
        REPLAY_OPS LOOK_BYTES LOOK_ZEROES_BYTES_MAX REPLAY_ATTEMPTS UNFLUSHED_BYTES LINGER_MS LINGER_BYTES LINGERING_MAX
        REFUSALS_LOGGED_MAX REFUSALS_LOGGED_STEP_S FAILURES_LOGGED_STEP_S FAILURE_KINDS_MAX REMARKED_HOSTS_MAX HOSTS_COUNTED_MAX REPORT_LOOP_MS
        HOST_LIMITS_MAX STALL_S STALL_BYTES_MIN
        CAPTURE_QUEUE_BYTES CAPTURE_QUEUE_RECORDS CAPTURE_CONNECTIONS_MAX CAPTURE_WAITING_BYTES CAPTURE_LOOK_MS
        ADMIN_ANSWER_BYTES POOL_PARTS
        GUARANTEED_BYTES GUARANTEED_PARTS HOST_TIMES_LEFT
        ANSWER_US_MAX ANSWER_US_MIN
        SHARE_BYTES_MIN SHARE_BYTES_MIN_BARE SHARE_BYTES_FIRST SEND_AHEAD_BYTES
        RECEIVES_PER_TURN RECEIVE_PIECES
        DIRECT_BYTES_MIN DIRECT_BYTES_MAX LARGE_PAYLOAD_BYTES
        STAGED_BEFORE_LARGE_BYTES
        WHOLE_BYTES_MAX
        SENDS_PER_TURN
        GATHER_SLICES
        GATHER_PARTS GATHER_BYTES
        STARVED_RETRY_MS STARVED_RETRY_MS_MAX
        SETTLE_S QUIESCE_S
        ESHUTDOWN_MAX
        DRAIN_S
        ISCSI_RETRIES_MAX
        ISCSI_BUSY_PAUSE_MS
        ABSENT_PAUSE_MS
        ISCSI_PROBE_BYTES ISCSI_FULL_STATUS_BYTES
        ISCSI_REDIRECTIONS_MAX ISCSI_TRANSFER_BYTES_MAX
        ISCSI_PDU_BYTES
        ISCSI_BURST_BYTES ISCSI_CONNECTIONS_MAX
        DRAIN_CLOSE_S HOST_IDENTIFIERS_MAX AUTHENTICATIONS_MAX AUTHENTICATION_STEP_MS AUTHENTICATIONS_ROWS AUTHENTICATION_S AUTHENTICATION_MESSAGES_MAX
        AUTHENTICATION_GROUP_BITS AUTHENTICATION_THREADS AUTHENTICATION_ADDRESS_MS AUTHENTICATION_ADDRESS_PERCENT
        AUTHENTICATION_TARGET_MS AUTHENTICATION_TARGET_PERCENT AUTHENTICATION_KNOWN_S CONCATENATION_PLAIN_S
        GENERATED_PSK_S GENERATED_PSKS_OF_HOST GENERATED_PSKS_MAX
        LOGIN_FAILURES_MAX LOGIN_FAILURES_ROWS LOGIN_FAILURES_S LOGIN_NAMES_MAX PORTS_KNOWN_MAX
        LOGOUT_WAIT_S
        NBD_TRANSFER_BYTES_MAX
        CONTROL_POOL_BYTES DISK_POOL_BYTES FINISH_S LOOP_ANSWER_S
        DRAIN_STEP_MS QUEUE_RETRY_MS
        STAGING_BYTES
        WORK_PASSES_PER_TURN
        ADMIN_DATA_BYTES_MAX PASSTHROUGH_BYTES_MAX OFFLOAD_BYTES_MAX
        ADMIN_TIMEOUT_S
        ADMIN_COMMAND_S UNSETTLED_MAX ISIDS_MAX REFERRALS_MAX DISCOVERED_PATHS_MAX SKIPPED_LOGGED_MAX DISCOVERED_URLS_MAX
        SPARE_BYTES_MIN ISCSI_IDLE_STEP_S ISCSI_LOGOUT_STEP_MS ISCSI_READY_PAUSE_MS
        LOCAL_COMMANDS_MAX NBD_MERGES_MAX NBD_PREFERRED_BYTES EXTENTS_S EXTENT_REQUESTS_MAX EXTENT_RUNS_MAX
        FUSE_QUEUES_MAX FUSE_RING_SLOTS_MAX FUSE_RING_BYTES_MAX FUSE_RETRY_MS FUSE_REQUESTS_PER_TURN FUSE_ZEROES_BYTES FUSE_CLOSE_S
        UBLK_QUEUES_MAX UBLK_RETRY_MS UBLK_TURNS UBLK_OPEN_S UBLK_CLOSE_S INHERITED_FLUSH_S
        VHOST_USER_CHAINS_PER_TURN VHOST_USER_REQUEST_BYTES_MAX VHOST_USER_MESSAGES_PER_TURN
        VHOST_USER_POLL_US VHOST_USER_TURN_WAIT_MS VHOST_USER_WAIT_S VHOST_USER_CONNECTIONS_MAX
    )
}

fn proto() -> Limits {
    limits!(weft_proto, "proto":
        PRINTABLE_CHARS_MAX QUEUE_ENTRIES_MAX ADMIN_QUEUE_ENTRIES_MAX
        H2C_DATA_MAX_BYTES
        C2H_DATA_MAX_BYTES
        R2T_MAX_BYTES R2T_OUTSTANDING_MAX
        COPY_RANGES_MAX COPY_MAX_BYTES COPY_PIECE_BYTES TRANSFER_MAX_BYTES
        NAMESPACES_MAX
        CONTROLLERS_MAX
        IO_QUEUES_MAX IO_QUEUES_CONFIGURED_MAX
        ASYNC_EVENTS_MAX
        ABORTS_MAX ANA_GROUPS_MAX ANA_TRANSITION_S CROSS_RESETS_EXECUTED_MAX
        CONTROLLER_QUIESCE_MS ERROR_ENTRIES_MAX
        HANDSHAKE_S
        KEEP_ALIVE_GRANULARITY_MS
        ASSOCIATION_IDLE_MS
        READY_TIMEOUT_MS
        STATISTICS_COMMANDS
        REMOTE_NAMESPACES_MAX
        REMOTE_ANA_GROUPS_MAX
        CROSS_RESETS_MAX
        DISCOVERY_ENTRIES_MAX
        DISCOVERY_ATTEMPTS_MAX
        STUCK_COMMANDS_MAX
        TEXT_BYTES_MAX
        AHS_BYTES_MAX
        SCSI_UNITS_MAX SCSI_PORTS_MAX
        REGISTRANTS_MAX RESERVATION_NOTICES_MAX
        SCSI_RESPONSE_BYTES_MAX
        SCSI_MODE_LIST_BYTES_MAX
        SCSI_UNMAP_RANGES_MAX
        SCSI_WRITE_SAME_BYTES_MAX
        SCSI_STEP_BYTES
        SESSION_COMMANDS_MAX
        IMMEDIATE_COMMANDS_MAX
        LOGIN_STEPS_MAX
        UNKNOWN_KEYS_MAX LOGIN_REPLIES_BYTES_MAX
        PING_BYTES_MAX PING_AFTER_S PING_TIMEOUT_S
        REPLIES_BYTES_MAX
        DATA_IN_MAX_BYTES
        ISCSI_RECEIVE_BYTES
        ISCSI_BURST_BYTES
        ISCSI_FIRST_BURST_BYTES
        ISCSI_DATA_OUT_BYTES
        ISCSI_LOGIN_TEXT_BYTES ISCSI_LOGIN_EXCHANGES_MAX
        ISCSI_TARGETS_BYTES_MAX
        ISCSI_TEXT_EXCHANGES_MAX
        ISCSI_PINGS_MAX
        NBD_EXTENTS_MAX NBD_REQUESTS_MAX
        NBD_STRING_BYTES_MAX NBD_OPTION_BYTES_MAX
        NBD_PAYLOAD_BYTES_MAX
        NBD_NEGOTIATION_BYTES
        NBD_OPTION_REPLIES_MAX
        NBD_FRAGMENTS_MAX PSK_KEYS_MAX
        VIRTIO_QUEUE_SIZE_MAX VIRTIO_CHAIN_PIECES_MAX VIRTIO_SEGMENTS_MAX
        VIRTIO_RANGES_MAX VIRTIO_RANGE_SECTORS_MAX
        VHOST_USER_QUEUES_MAX VHOST_USER_REGIONS_MAX
        VHOST_USER_MESSAGE_BYTES_MAX VHOST_USER_DESCRIPTORS_MAX
    )
}

fn io() -> Limits {
    limits!(weft_io, "io":
        POOL_BYTES_DEFAULT
        BUF_BYTES_MIN
        BUF_BYTES_MAX
        BUF_ALIGN
        SPIN_US_DEFAULT
        SPIN_TRIAL_GAP_MAX
        SPIN_FORGET_MS
        TIMER_SLACK_NS
        TURNS_PER_POLL
        LOOK_AGAIN_MS
        EVENTS_PER_POLL
        SOCKET_BUFFER_BYTES
        REGION_SPARE_FRAMES
        ACCEPTS_PER_TURN DESCRIPTORS_RESERVED FOREIGN_DESCRIPTORS_MAX CLOSING_SOCKETS_MAX
        ACCEPT_BACKOFF_MS_MIN
        ACCEPT_BACKOFF_MS_MAX
        RDMA_BACKLOG RDMA_RESOLVE_MS
        RDMA_MESSAGE_BYTES_MAX
        RDMA_FREE_BYTES_MAX RDMA_KEPT_BYTES
        FUSE_BACKGROUND_MAX FUSE_CONGESTED FUSE_START_S
        KEEP_ALIVE_IDLE_S
        KEEP_ALIVE_INTERVAL_S
        KEEP_ALIVE_PROBES
        CONNECT_ADDRESSES_MAX
        CONNECT_STAGGER_MS
        DISK_OPS_PER_LOOP
        DISK_OPS_PER_FILE
        DISK_SUBMISSIONS
        DISK_VECTORS
        DISK_THREADS
        DISK_THREAD_IDLE_MS
        DISK_CLOSE_WAIT_MS
        TLS_SEND_BYTES
        GUEST_MAPPINGS_MAX EVENT_UNITS_MAX VOLUME_EXTENTS_MAX
    )
}

fn ceph() -> Limits {
    limits!(weft_ceph, "ceph": RBD_TRANSFER_BYTES_MAX RBD_QUEUE_OPS RBD_CLEARED_OBJECTS RBD_COMPARES RBD_OPENINGS_MAX
        RADOS_FENCE_S RADOS_WATCH_S)
}

fn tls() -> Limits {
    limits!(weft_tls, "tls":
        TLS_SEND_BYTES TLS_RECEIVE_BYTES TLS_SPARE_BUFFERS TLS_IDENTITIES_MAX TLS_KEY_RECORDS_MAX TLS_RECORD_BYTES
        TLS_COUNT_BYTES TLS_CONTROL_RECORDS_MAX
    )
}

fn group() -> Limits {
    limits!(weft_group, "group": GATEWAYS_MAX CNTLIDS_PER_GATEWAY ANA_GROUPS NAME_BYTES_MAX RECORD_BYTES_MAX LISTENERS_MAX BEAT_MS LEASE_MS
        RESERVATION_FAILURES_MAX RESERVATION_CONFLICTS_MAX RESERVATION_RETRY_MS RESERVATION_CHANGES_KEPT RESERVATION_MENTIONS_KEPT
        RESERVATION_RECORD_BYTES_MAX)
}

fn block() -> Limits {
    limits!(weft_block, "block":
        MAX_TRANSFER_BYTES COMPARE_AND_WRITE_BLOCKS RESERVATION_REPORT_BYTES LOSSES_OWED_MAX
        BLOCK_BYTES_DEFAULT
        MEMORY_QUEUE_OPS
        RAM_ZERO_BYTES_PER_STEP
        RAM_LENT_BYTES
        RAM_SPARE_BYTES
        FILE_QUEUE_OPS
        FILE_LOCK_STRIPES FILE_SCRATCH_OPS
        FILTER_DEPTH
        LIST_SOURCES
        FAULT_HELD_OPS
        DELAY_QUEUE_OPS
        DELAY_DEPTH_MAX
        DISK_LOOK_MS FILE_LOOK_MS DRIVE_MEMORY_ALIGN VOLUME_LOCK_TRIES VOLUME_LOCK_PAUSE_MS STATS_EVERY_S
        STRIPE_QUEUE_OPS STRIPE_CHUNK_BYTES STRIPE_CHUNK_BYTES_MIN
        LIMIT_QUEUE_OPS LIMIT_BURST_MS LIMIT_LOOK_MS
        TIME_LIMIT_QUEUE_OPS TIME_LIMIT_POOL_BYTES
        DISK_TIMEOUT_S
        SHARER_OPS
        MAILBOX_OPS
        MIRROR_COPY_BYTES MIRROR_PROBE_BYTES MIRROR_COPY_OPS MIRROR_UNREADABLE_RANGES MIRROR_ROUNDS
        MIRROR_QUEUE_OPS MIRROR_POOL_BYTES MIRROR_HOT_REGIONS MIRROR_MARK_AHEAD MIRROR_MARK_ASKS
        MIRROR_COLD_S MIRROR_PROBE_S MIRROR_RETRY_MS MIRROR_RETRY_MS_MAX
        MIRROR_READ_RUN_BYTES MIRROR_DRAIN_MS MIRROR_BARRED_MS
    )
}

fn load() -> Limits {
    limits!(weft_load, "load":
        IODEPTH_MAX
        JOBS_MAX
        THREADS_MAX
        BLOCK_BYTES_MAX
        PAYLOAD_BYTES_MAX
        VERIFIED_UNITS_MAX
        FINDINGS_MAX
        LATENCY_NS_MIN
        LATENCY_NS_MAX
        LATENCY_DIGITS
        DRAIN_MAX
        STOP_MAX
        SAMPLE_EVERY
        GROUPED_ABOVE
        PROGRESS_EVERY GATE_EVERY
    )
}

fn bench() -> Limits {
    limits!(weft_bench, "bench":
        P999_IOS_MIN P9999_IOS_MIN SERIES_POINTS_MAX
        SUITE_BYTES_MAX SUITE_ENTRIES_MAX SUITE_IN_FLIGHT_MAX
        AGENT_MESSAGE_BYTES_MAX AGENT_FIRST_BYTES_MAX AGENT_URL_BYTES_MAX AGENT_PAYLOAD_BYTES_MAX AGENT_RUN_MAX AGENTS_MAX AGENT_CLOCK_TRIPS
    )
}

fn copy() -> Limits {
    limits!(weft_copy, "copy":
        GRAIN_BYTES CHUNK_BYTES CHUNK_BYTES_MAX CHUNK_BYTES_MIN DEPTH DEPTH_MAX THREADS_MAX HOLE_BYTES PARTS_MAX
        PROGRESS_EVERY JOURNAL_EVERY JOURNAL_BYTES_MAX TRIAL TRIAL_BYTES OFFLOAD_CALLS_MAX UNREADABLE_MAX
    )
}

fn server() -> Limits {
    limits!(weft_server, "server":
        POOL_BYTES_MIN REQUEST_BYTES_MAX GROUP_CONFIGURATION_BYTES_MAX GROUP_MONITORS_S
        CONTROL_CLIENTS_MAX
        CONTROL_SEND_S CONTROL_IDLE_S CONTROL_CONNECT_S CONTROL_ANSWER_S CONTROL_ANSWER_BYTES_MAX
        METRICS_CLIENTS_MAX METRICS_REQUEST_BYTES_MAX METRICS_REQUEST_S METRICS_SEND_S HOME_LINES_MAX
        LEAVE_S HANDOVER_S HANDOVER_SOCKETS_MAX RELEASE_MS PSK_FILE_BYTES_MAX FILE_CHECK_S FILE_CHECKS_LATE_MAX
        CONNECTIONS_RECORDED_MAX CONNECTION_WORDS_BYTES_MAX CONNECTIONS_FILE_BYTES_MAX
        RESTORE_DELAY_MIN_S RESTORE_DELAY_MAX_S RESTORES_MAX
        SERVICE_RESTARTS_MS SERVICE_FAILURES_FORGOTTEN_S SERVICE_SHUTDOWN_S SERVICE_SILENCE_S
    )
}

/// This program, as the other crates are named.
mod weft_cli {
    pub(super) use crate::limits;
}

fn cli() -> Limits {
    limits!(weft_cli, "cli":
        CONNECT_ALL_AT_ONCE PATIENCE_S END_MS END_WAIT_MS DAEMON_START_MS CONTROLLERS_FILE_BYTES_MAX
        MDNS_FOUND_MAX MDNS_GOODBYE_MS
        AGENT_PROOF_S AGENT_STRANGERS_MAX AGENT_STRANGERS_ADDRESS_MAX AGENT_SILENCE_S AGENT_SEND_S AGENT_OPEN_S AGENT_LOG_S AGENT_FILE_BYTES_MAX
        STUDY_RESULTS_BYTES_MAX SITE_STUDIES_MAX SITE_LIST_BYTES_MAX FIO_SLICE_S FIO_LATE_S OUTPUT_BYTES_MAX LINE_CHARS_MAX
        PEER_START_S PEER_END_MS PEER_KEEP_ALIVE_S PEER_OUTAGE_S
        KERNEL_STEP_S KERNEL_REPLY_S KERNEL_END_S
        RELAY_CONNECTIONS_MAX RELAY_CHUNK_BYTES RELAY_CHUNKS_MAX RELAY_CONNECT_S
    )
}

fn limit(name: &'static str, value: &dyn Debug, source: &str) -> Limit {
    Limit { name, value: format!("{value:?}"), text: documentation(source, name) }
}

/// The documentation of a constant, as one paragraph of plain text.
fn documentation(source: &str, name: &str) -> String {
    let head = format!("pub const {name}:");
    let before = source.split(&head).next().unwrap_or_default();
    let mut lines: Vec<&str> =
        before.lines().rev().map_while(|line| line.strip_prefix("///")).map(str::trim).collect();
    lines.reverse();
    let text: String = lines.join(" ");
    text.replace(['[', ']', '`'], "").replace("crate::", "")
}

/// Prints the limits.
pub fn run(args: &LimitsArgs) -> Result<(), Failure> {
    let mut out = std::io::stdout().lock();
    if args.output_format == super::list::Listing::Json {
        let object = |limit: &Limit| json!({"name": limit.name, "value": limit.value, "meaning": limit.text});
        let crates =
            all().map(|(name, limits)| (name.to_owned(), limits.iter().map(object).collect()));
        writeln!(out, "{:#}", serde_json::Value::Object(crates.into_iter().collect()))?;
        return Ok(());
    }
    for (name, limits) in all() {
        writeln!(out, "{name}")?;
        for limit in limits {
            writeln!(out, "  {:<26} {:>14}  {}", limit.name, limit.value, limit.text)?;
        }
    }
    writeln!(out, "resulting memory")?;
    for connections in [16, 256, CONNECTIONS_MAX] {
        let mib = target_bytes(1, POOL_BYTES_DEFAULT, connections).div_ceil(1 << 20);
        writeln!(
            out,
            "  a target with one loop and {connections:>4} connections uses at most {mib:>4} MiB, plus the memory of its devices"
        )?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;

    #[test]
    fn every_limit_is_printed_with_words() {
        for (package, limits) in all() {
            // The facade offers those of the crate below it under its own name.
            let name = match package {
                "weft_endpoint" => "connection",
                other => other.trim_start_matches("weft_"),
            };
            let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(name).join("src");
            let modules = std::fs::read_dir(directory.join("limits"));
            let modules = modules.into_iter().flatten().map(|entry| entry.unwrap().path());
            let source: String = modules
                .chain(Some(directory.join("limits.rs")).filter(|file| file.exists()))
                .map(|path| std::fs::read_to_string(path).unwrap())
                .collect();
            let mut declared: Vec<_> = source
                .lines()
                .filter_map(|l| l.strip_prefix("pub const ")?.split(':').next())
                .collect();
            declared.retain(|name| !name.starts_with("fn "));
            let mut printed: Vec<_> = limits.iter().map(|limit| limit.name).collect();
            declared.sort_unstable();
            printed.sort_unstable();
            assert_eq!(declared, printed, "{package}");
            assert!(limits.iter().all(|limit| !limit.text.is_empty()), "{package}");
        }
    }
}
