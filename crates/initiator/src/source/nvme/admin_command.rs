//! Admin commands, for which a user waits.

use super::association::{Association, ToAdmin};
use super::command_data::CommandData;
use std::sync::mpsc;
use std::time::Duration;
use weft_block::{Error, ErrorKind, waiting};
use weft_connection::limits::ADMIN_COMMAND_S;
use weft_proto::nvme::cqe::Cqe;
use weft_proto::nvme::opcode::AdminOpcode;
use weft_proto::nvme::sqe::Sqe;
use weft_proto::nvme::types::Nsid;

/// Runs an admin command with at most 128 KiB of data; gives its completion and the data that came.
pub(super) fn run<L>(
    association: &Association<L>,
    name: &str,
    sqe: Sqe,
    data: CommandData,
) -> Result<(Cqe, Vec<u8>), Error> {
    let data = data.for_admin()?;
    let (give, take) = mpsc::channel();
    let reply = Box::new(move |result| drop(give.send(result)));
    association.tell(ToAdmin::Command { sqe, data, reply });
    let _waiting = waiting::begin(|| format!("{name} to answer an admin command"));
    match take.recv_timeout(Duration::from_secs(ADMIN_COMMAND_S)) {
        Ok(Ok(answer)) => Ok(answer),
        Ok(Err(why)) => Err(Error::new(ErrorKind::Refused, why)),
        Err(_) => {
            let text = format!("{name}: no answer to an admin command");
            Err(Error::new(ErrorKind::TimedOut, text))
        }
    }
}

/// Identify (Base §5.17): the structure `cns` of a namespace or of the controller, 4,096 bytes.
pub(super) fn identify<L>(
    association: &Association<L>,
    name: &str,
    cns: u8,
    nsid: Nsid,
) -> Result<Vec<u8>, Error> {
    let mut sqe = Sqe::new(AdminOpcode::IDENTIFY.0, nsid);
    sqe.set_dword(10, cns.into());
    let (cqe, data) = run(association, name, sqe, CommandData::In(4096))?;
    if cqe.status.is_success() {
        return Ok(data);
    }
    let text = format!("{name}: Identify of namespace {nsid} was refused: {}", cqe.status);
    Err(Error::new(ErrorKind::NotFound, text))
}
