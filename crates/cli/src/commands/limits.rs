//! `weft limits`: every limit, with its unit.

use crate::exit::Failure;
use std::io::Write;

/// Prints the table.
pub fn run() -> Result<(), Failure> {
    use weft_endpoint::limits as endpoint;
    use weft_io::limits as io;
    use weft_proto::limits as proto;
    let rows: &[(&str, u64, &str, &str)] = &[
        ("connections of a target", endpoint::CONNECTIONS_MAX as u64, "", "more are closed at once"),
        ("time from accept to Connect", endpoint::HANDSHAKE_S, "s", "slower connections are closed"),
        ("data in a command capsule", endpoint::IN_CAPSULE_BYTES.into(), "bytes", "larger writes go by R2T"),
        ("transfer of one command", endpoint::TRANSFER_BYTES_MAX.into(), "bytes", "longer commands are refused (MDTS)"),
        ("entries of an I/O queue", proto::QUEUE_ENTRIES_MAX.into(), "", "larger queues are refused (CAP.MQES)"),
        ("entries of an admin queue", proto::ADMIN_QUEUE_ENTRIES_MAX.into(), "", "larger queues are refused"),
        ("payload memory of a loop", io::POOL_BYTES_DEFAULT as u64, "bytes", "connections wait (--pool)"),
        ("largest buffer", io::BUF_BYTES_MAX as u64, "bytes", "larger requests are refused"),
        ("socket buffer, each direction", io::SOCKET_BUFFER_BYTES as u64, "bytes", "the system may give less"),
        ("spin before sleeping", io::SPIN_US_DEFAULT, "us", "then the loop sleeps (--poll: never)"),
        ("time to drain at the end", endpoint::DRAIN_S, "s", "then connections are closed"),
    ];
    let mut out = std::io::stdout().lock();
    writeln!(out, "{:<32} {:>10} {:<6} what happens there", "limit", "value", "unit")?;
    for (name, value, unit, effect) in rows {
        writeln!(out, "{name:<32} {value:>10} {unit:<6} {effect}")?;
    }
    Ok(())
}
