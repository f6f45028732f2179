//! An initiator that reserves by iSCSI: one session, without digests and CHAP.

use super::link::{PollingDriver, StreamLost, TimedStream};
use super::model::{Kind, ModelAction};
use super::{BLOCK, Ended};
use std::net::SocketAddr;
use weft_io::Time;
use weft_proto::iscsi::pdu::{
    CommandFlags, Head, Isid, LoginFlags, LoginRequest, LoginResponse, LoginStage, LoginStatus,
    Opcode, ScsiCommand, ScsiResponse, TaskTag, padding,
};
use weft_proto::iscsi::serial::Serial;

/// TYPE of SPC-4 §6.15.3.3 for the types of NVMe.
const TYPES: [u8; 7] = [0, 1, 3, 5, 6, 7, 8];

/// In the parameter list of PERSISTENT RESERVE OUT (SPC-4 §6.16.3): registers at all target ports.
const ALL_TG_PT: u8 = 4;

/// So often a command is made again that a unit attention took the place of.
const ATTENTIONS: usize = 8;

/// A session.
pub struct IscsiSession {
    link: TimedStream,
    sn: u32,
    /// It registers at all target ports.
    all_ports: bool,
}

impl IscsiSession {
    /// Logs in. It will register at this target port, or at all.
    pub async fn open(
        place: &PollingDriver,
        to: SocketAddr,
        (name, target): (&str, &str),
        all_ports: bool,
        limit: Time,
    ) -> Result<Self, StreamLost> {
        let mut this = Self { link: TimedStream::open(place, to, limit).await?, sn: 1, all_ports };
        let text = format!("InitiatorName={name}\0TargetName={target}\0");
        let request = LoginRequest {
            immediate: true,
            flags: LoginFlags::new(LoginStage::OPERATIONAL, Some(LoginStage::FULL_FEATURE)),
            isid: Isid::random([1, 2, 3], 4),
            task: TaskTag(1),
            cid: 1,
            cmd_sn: Serial(this.sn),
            ..LoginRequest::default()
        };
        this.put(request.encode(text.len() as u32), text.as_bytes()).await?;
        let (bhs, _) = this.pdu().await?;
        let is_in = Opcode::of(bhs[0]) == Opcode::LOGIN_RESPONSE
            && LoginResponse::decode(&bhs).status == LoginStatus::SUCCESS;
        if is_in { Ok(this) } else { Err(StreamLost) }
    }

    async fn put(&mut self, bhs: [u8; 48], data: &[u8]) -> Result<(), StreamLost> {
        self.link.send(&[&bhs[..], data, &[0; 3][..padding(data.len() as u32)]].concat()).await
    }

    async fn pdu(&mut self) -> Result<([u8; 48], Vec<u8>), StreamLost> {
        let bhs: [u8; 48] = self.link.receive(48).await?.try_into().map_err(|_| StreamLost)?;
        let bytes = Head::decode(&bhs).data_bytes;
        Ok((bhs, self.link.receive(bytes as usize + padding(bytes)).await?))
    }

    /// A command whose data comes with it; its status and sense key.
    async fn command(&mut self, cdb: [u8; 16], data: &[u8]) -> Result<(u8, u8), StreamLost> {
        let (task, cmd_sn) = (TaskTag(self.sn), Serial(self.sn));
        self.sn += 1;
        let command = ScsiCommand {
            flags: CommandFlags(0xa1),
            task,
            expected_bytes: data.len() as u32,
            cmd_sn,
            cdb,
            ..ScsiCommand::default()
        };
        self.put(command.encode(data.len() as u32), data).await?;
        loop {
            let (bhs, data) = self.pdu().await?;
            match Opcode::of(bhs[0]) {
                // Sense data begins behind its length.
                Opcode::SCSI_RESPONSE => {
                    return Ok((
                        ScsiResponse::decode(&bhs).status,
                        data.get(4).map_or(0, |key| key & 0xf),
                    ));
                }
                Opcode::NOP_IN => {}
                _ => return Err(StreamLost),
            }
        }
    }

    async fn run(&mut self, cdb: [u8; 16], data: &[u8]) -> Result<Ended, StreamLost> {
        for _ in 0..ATTENTIONS {
            return Ok(match self.command(cdb, data).await? {
                (0, _) => Ended::Done,
                (0x18, _) => Ended::Conflict,
                // A unit attention: it is told once, and nothing is executed.
                (2, 6) => continue,
                (2, 5) => Ended::Invalid,
                (2, 4) => Ended::Unknown,
                _ => Ended::NotExecuted,
            });
        }
        Err(StreamLost)
    }

    /// Asks for something; keys by number.
    pub async fn reserve(
        &mut self,
        action: ModelAction,
        own: u64,
        key_of: impl Fn(usize) -> u64,
    ) -> Result<Ended, StreamLost> {
        let code = |kind: Kind| TYPES[usize::from(kind)];
        // Service action, type, the sender's key, and the other one.
        let (service, kind, keys) = match action {
            ModelAction::Register => (6, 0, [0, own]),
            ModelAction::Unregister { .. } => (6, 0, [0, 0]),
            ModelAction::Acquire(kind) => (1, code(kind), [own, 0]),
            ModelAction::Release(kind) => (2, code(kind), [own, 0]),
            ModelAction::Clear => (3, 0, [own, 0]),
            ModelAction::Preempt { victim, kind, abort } => {
                (4 + u8::from(abort), code(kind), [own, key_of(victim)])
            }
            ModelAction::Report => return Ok(Ended::NotExecuted),
        };
        let mut cdb = [0; 16];
        (cdb[0], cdb[1], cdb[2], cdb[8]) = (0x5f, service, kind, 24);
        let mut list = [&keys.map(u64::to_be_bytes).concat()[..], &[0; 8]].concat();
        if self.all_ports && service == 6 {
            list[20] = ALL_TG_PT;
        }
        self.run(cdb, &list).await
    }

    /// Writes one block.
    pub async fn write(&mut self, lba: u64, content: &[u8; BLOCK]) -> Result<Ended, StreamLost> {
        let mut cdb = [0; 16];
        (cdb[0], cdb[13]) = (0x8a, 1);
        cdb[2..10].copy_from_slice(&lba.to_be_bytes());
        self.run(cdb, content).await
    }
}
