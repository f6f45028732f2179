//! The atomic units that a controller reports arrive at the device, each by itself.

use crate::hostile::fake::{Fake, Reply, c2h_data, controller, is_admin, success};
use crate::hostile::targets::patient;
use weft_block::Atomicity;
use weft_endpoint::open;
use weft_proto::nvme::identify::{IdentifyController, IdentifyNamespace, LbaFormat};
use weft_proto::nvme::opcode::AdminOpcode;
use weft_proto::nvme::sqe::Sqe;
use weft_proto::nvme::types::Qid;
use weft_proto::nvme_tcp::pdu::Flags;

#[test]
fn each_atomic_unit_is_the_one_that_was_told() {
    let answers = |fuses: u16| {
        move |qid: Qid, sqe: &Sqe| {
            if !is_admin(qid, sqe, AdminOpcode::IDENTIFY) || sqe.dword(10) as u8 > 1 {
                return Reply::Usual;
            }
            let mut data = vec![0; 4096];
            if sqe.dword(10) as u8 == 1 {
                // Other values, none of which counts where the namespace has its own.
                IdentifyController { fuses, awun: 99, awupf: 98, acwu: 97, ..controller() }
                    .put(&mut data);
            } else {
                let mut id = IdentifyNamespace {
                    nsze: 1000,
                    ncap: 1000,
                    nuse: 1000,
                    ..IdentifyNamespace::default()
                };
                (id.nsfeat, id.nawun, id.nawupf, id.nacwu) = (2, 31, 15, 1);
                id.lbaf[0] = LbaFormat { ms: 0, ds: 9, rp: 0 };
                id.put(&mut data);
            }
            Reply::Bytes(
                [c2h_data(sqe.cid(), 0, &data, Flags::LAST), success(sqe.cid(), 0)].concat(),
            )
        }
    };
    for (fuses, blocks) in [(1, 2), (0, 1)] {
        let fake = Fake::new(None, answers(fuses));
        let device = open(&fake.url(), &patient()).unwrap();
        let told =
            Atomicity { write_blocks: 32, power_fail_blocks: 16, compare_and_write_blocks: blocks };
        assert_eq!((device.geometry().atomic, device.features().compare), (told, fuses == 1));
    }
}
