//! iSCSI: the login and its keys.

use super::PeerState::{Fresh, Ready};
use super::iscsi::*;
use super::{Fault, fault};
use crate::sim::protocols::IQN;
use weft_proto::iscsi::pdu::*;

const LOGIN: &str = "RFC 7143 §11.12, §6.3";
const KEYS: &str = "RFC 7143 §6.1, §13";

pub(super) const TABLE: &[Fault] = &[
    fault(LOGIN, "a command before login", Fresh, |_| write(1), "closed"),
    fault(
        LOGIN,
        "another protocol than iSCSI",
        Fresh,
        |_| b"GET / HTTP/1.1\r\n\r\n".repeat(50),
        "closed",
    ),
    fault(
        LOGIN,
        "login: version",
        Fresh,
        |_| with(login(""), 2, &[9, 9]),
        "login: no common protocol version; closed",
    ),
    fault(
        LOGIN,
        "login: reserved stage",
        Fresh,
        |_| with(login(""), 1, &[0x8a]),
        "login: initiator error; closed",
    ),
    fault(
        LOGIN,
        "login: next stage below the current one",
        Fresh,
        |_| with(login(""), 1, &[0x84]),
        "login: initiator error; closed",
    ),
    fault(
        LOGIN,
        "login: next stage of none",
        Fresh,
        |_| with(login(""), 1, &[0x86]),
        "login: initiator error; closed",
    ),
    fault(
        LOGIN,
        "login: next stage the same as the current one",
        Fresh,
        |_| with(login(""), 1, &[0x85]),
        "login: initiator error; closed",
    ),
    fault(
        LOGIN,
        "login: begins in the full feature phase",
        Fresh,
        |_| with(login(""), 1, &[0x8f]),
        "login: initiator error; closed",
    ),
    fault(
        LOGIN,
        "login: back from the operational to the security stage",
        Fresh,
        |_| [step(0x04), step(0x81)].concat(),
        "login: success; login: initiator error; closed",
    ),
    fault(
        LOGIN,
        "login: another ISID in the second request",
        Fresh,
        |_| [step(0x04), with(step(0x87), 8, &[0x41])].concat(),
        "login: success; login: initiator error; closed",
    ),
    fault(
        LOGIN,
        "login: another connection in the second request",
        Fresh,
        |_| [step(0x04), with(step(0x87), 20, &[9, 9])].concat(),
        "login: success; login: initiator error; closed",
    ),
    fault(
        LOGIN,
        "login: another task in the second request",
        Fresh,
        |_| [step(0x04), with(step(0x87), 16, &[9; 4])].concat(),
        "login: success; login: initiator error; closed",
    ),
    fault(
        LOGIN,
        "login: a text that goes on (C) into the next stage (T)",
        Fresh,
        |_| with(login(""), 1, &[0xc7]),
        "login: initiator error; closed",
    ),
    fault(
        LOGIN,
        "login: a text that goes on for ever",
        Fresh,
        |_| with(login(""), 1, &[0x44]).repeat(70),
        "login: success; login: initiator error; closed",
    ),
    fault(
        LOGIN,
        "login: a text above 64 KiB in pieces",
        Fresh,
        |_| {
            login_of(&LoginRequest { flags: LoginFlags(0x44), ..request() }, &"x".repeat(8192))
                .repeat(9)
        },
        "login: success; login: initiator error; closed",
    ),
    fault(
        LOGIN,
        "login: more steps than there may be",
        Fresh,
        |_| step(0x04).repeat(70),
        "login: success; login: initiator error; closed",
    ),
    fault(
        LOGIN,
        "login: a command between two requests",
        Fresh,
        |_| [step(0x04), write(1)].concat(),
        "login: success; closed",
    ),
    fault(
        LOGIN,
        "login: TSIH of no session",
        Fresh,
        |_| with(login(""), 14, &[0x12, 0x34]),
        "login: the session does not exist; closed",
    ),
    fault(
        LOGIN,
        "login: data longer than 8192 bytes",
        Fresh,
        |_| with(login(""), 5, &[0, 0x30, 0]),
        "closed",
    ),
    fault(
        LOGIN,
        "login: additional header segments of 1020 bytes",
        Fresh,
        |_| with(login(""), 4, &[0xff]),
        "closed",
    ),
    fault(
        KEYS,
        "login without InitiatorName",
        Fresh,
        |_| login_of(&request(), &format!("TargetName={IQN}\0")),
        "login: a required parameter is missing; closed",
    ),
    fault(
        KEYS,
        "login without TargetName",
        Fresh,
        |_| login_of(&request(), "InitiatorName=iqn.2026-01.example.weft:hostile\0"),
        "login: a required parameter is missing; closed",
    ),
    fault(
        KEYS,
        "login: a target that does not exist",
        Fresh,
        |_| {
            login_of(
                &request(),
                "InitiatorName=iqn.2026-01.example.weft:hostile\0TargetName=iqn.2026-01.example:nobody\0",
            )
        },
        "login: there is no such target; closed",
    ),
    fault(
        KEYS,
        "login: text without an end",
        Fresh,
        |_| login_of(&request(), "InitiatorName"),
        "login: initiator error; closed",
    ),
    fault(
        KEYS,
        "login: a key without a value",
        Fresh,
        |_| login("HeaderDigest\0"),
        "login: initiator error; closed",
    ),
    fault(
        KEYS,
        "login: a key twice",
        Fresh,
        |_| login("MaxBurstLength=512\0MaxBurstLength=512\0"),
        "login: success",
    ),
    fault(
        KEYS,
        "login: a number out of range",
        Fresh,
        |_| login("MaxBurstLength=1\0"),
        "login: initiator error; closed",
    ),
    fault(
        KEYS,
        "login: an unknown key",
        Fresh,
        |_| login("Colour=red\0"),
        "login: success, Colour=NotUnderstood",
    ),
    fault(
        KEYS,
        "login: no digest in common",
        Fresh,
        |_| login("HeaderDigest=MD5\0"),
        "login: initiator error; closed",
    ),
    fault(
        LOGIN,
        "login again in the full feature phase",
        Ready,
        |_| login(""),
        "Reject, reason 0x04",
    ),
];
