//! NBD: requests of the transmission phase.

use super::PeerState::{Greeted, Ready};
use super::nbd::*;
use super::{Fault, fault};

const REQUEST: &str = "Request message";
const COMMAND: &str = "Request types";

pub(super) const TABLE: &[Fault] = &[
    fault(
        REQUEST,
        "a wrong magic number",
        Ready,
        |_| request(MAGIC ^ 1, 0, 0, 0, 512, &[]),
        "closed",
    ),
    fault(REQUEST, "an unknown command", Ready, |_| request(MAGIC, 0, 99, 0, 512, &[]), "EINVAL"),
    fault(
        REQUEST,
        "flags that do not exist",
        Ready,
        |_| request(MAGIC, 0x8000, 0, 0, 512, &[]),
        "EINVAL",
    ),
    fault(
        REQUEST,
        "an option in the transmission phase",
        Ready,
        |_| option(3, &[]).repeat(2),
        "closed",
    ),
    fault(
        REQUEST,
        "an extended request without extended headers",
        Ready,
        |_| extended(0, 0, 0, 512, &[]),
        "closed",
    ),
    fault(
        REQUEST,
        "a plain request with extended headers",
        Greeted,
        |_| [choose(11), request(MAGIC, 0, 0, 0, 512, &[]).repeat(2)].concat(),
        "ACK; INFO; ACK; closed",
    ),
    fault(
        REQUEST,
        "extended: a write behind the end, without the flag for its payload",
        Greeted,
        |_| [choose(11), extended(0, 1, 1 << 40, 512, &[1; 512])].concat(),
        "ACK; INFO; ACK; ENOSPC",
    ),
    fault(
        REQUEST,
        "extended: a write of 2^64 - 1 bytes",
        Greeted,
        |_| [choose(11), extended(0x20, 1, 0, u64::MAX, &[])].concat(),
        "ACK; INFO; ACK; closed",
    ),
    fault(
        REQUEST,
        "extended: a read with a payload",
        Greeted,
        |_| [choose(11), extended(0x20, 0, 0, 512, &[1; 512])].concat(),
        "ACK; INFO; ACK; EINVAL",
    ),
    fault(
        REQUEST,
        "extended: a read of 1 TiB",
        Greeted,
        |_| [choose(11), extended(0, 0, 0, 1 << 40, &[])].concat(),
        "ACK; INFO; ACK; EINVAL",
    ),
    fault(
        REQUEST,
        "extended: zeroes beyond the end",
        Greeted,
        |_| [choose(11), extended(0, 6, 512, u64::MAX - 1023, &[])].concat(),
        "ACK; INFO; ACK; ENOSPC",
    ),
    fault(
        REQUEST,
        "structured: a read beyond the end",
        Greeted,
        |_| [choose(8), request(MAGIC, 0, 0, END, 512, &[])].concat(),
        "ACK; INFO; ACK; EINVAL",
    ),
    fault(
        COMMAND,
        "a read beyond the end",
        Ready,
        |_| request(MAGIC, 0, 0, END - 512, 1024, &[]),
        "EINVAL",
    ),
    fault(
        COMMAND,
        "a read whose offset overflows",
        Ready,
        |_| request(MAGIC, 0, 0, u64::MAX - 511, 1024, &[]),
        "EINVAL",
    ),
    fault(COMMAND, "a read of no bytes", Ready, |_| request(MAGIC, 0, 0, 0, 0, &[]), "EINVAL"),
    fault(COMMAND, "a read of 4 GiB", Ready, |_| request(MAGIC, 0, 0, 0, u32::MAX, &[]), "EINVAL"),
    fault(
        COMMAND,
        "a write beyond the end",
        Ready,
        |_| request(MAGIC, 0, 1, END - 512, 1024, &[1; 1024]),
        "ENOSPC",
    ),
    fault(COMMAND, "a write of 4 GiB", Ready, |_| request(MAGIC, 0, 1, 0, u32::MAX, &[]), "closed"),
    fault(COMMAND, "a write of no bytes", Ready, |_| request(MAGIC, 0, 1, 0, 0, &[]), "EINVAL"),
    fault(
        COMMAND,
        "a trim beyond the end",
        Ready,
        |_| request(MAGIC, 0, 4, END - 512, 1024, &[]),
        "EINVAL",
    ),
    fault(
        COMMAND,
        "write zeroes beyond the end of the export",
        Ready,
        |_| request(MAGIC, 0, 6, END - 512, 1024, &[]),
        "ENOSPC",
    ),
    fault(
        COMMAND,
        "DISC with flags and an address",
        Ready,
        |_| request(MAGIC, 0xffff, 2, 9, 9, &[]),
        "closed",
    ),
    fault(
        COMMAND,
        "CACHE, which was not offered",
        Ready,
        |_| request(MAGIC, 0, 5, 0, 512, &[]),
        "EINVAL",
    ),
    fault(
        COMMAND,
        "a read with DF, which was not offered",
        Ready,
        |_| request(MAGIC, 4, 0, 0, 512, &[]),
        "EINVAL",
    ),
    fault(
        COMMAND,
        "a write whose offset overflows",
        Ready,
        |_| request(MAGIC, 0, 1, u64::MAX - 511, 1024, &[1; 1024]),
        "ENOSPC",
    ),
    fault(COMMAND, "a trim of no bytes", Ready, |_| request(MAGIC, 0, 4, 0, 0, &[]), "EINVAL"),
    fault(
        COMMAND,
        "a trim whose offset overflows",
        Ready,
        |_| request(MAGIC, 0, 4, u64::MAX - 511, 1024, &[]),
        "EINVAL",
    ),
    fault(
        COMMAND,
        "write zeroes of no bytes",
        Ready,
        |_| request(MAGIC, 0, 6, 0, 0, &[]),
        "EINVAL",
    ),
    fault(
        COMMAND,
        "write zeroes that have to be fast",
        Ready,
        |_| request(MAGIC, 0x10, 6, 0, 512, &[]),
        "ENOTSUP",
    ),
    fault(
        COMMAND,
        "a flush with an address",
        Ready,
        |_| request(MAGIC, 0, 3, 512, 512, &[]),
        "EINVAL",
    ),
    fault(
        COMMAND,
        "block status, which was not negotiated",
        Ready,
        |_| request(MAGIC, 0, 7, 0, 512, &[]),
        "EINVAL",
    ),
    fault(
        COMMAND,
        "a cookie that is in use",
        Ready,
        |_| {
            [request(MAGIC, 0, 1, 0, 512, &[1; 512]), request(MAGIC, 0, 1, 0, 512, &[1; 512])]
                .concat()
        },
        "success",
    ),
];
