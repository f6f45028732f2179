//! `nvmf_tgt` of SPDK: NVMe/TCP. It polls on each of its cores.

use super::device::PeerDevice;
use super::peer::{DeviceWish, PeerProgram, PeerTarget, StartMethod, TargetPlan, words};
use serde_json::{Value, json};
use weft_bench::suite::Through;

pub const PEER: PeerTarget = PeerTarget {
    name: "spdk",
    through: Through::NvmeTcp,
    programs: &[PeerProgram { name: "nvmf_tgt", package: None }],
    how: StartMethod::Program(plan),
};

/// Bytes of a block.
const BLOCK_BYTES: u64 = 512;

/// MiB of memory for its buffers.
const BUFFERS_MIB: u64 = 1024;

/// Environment variable that tells DPDK where to keep its files.
pub const RUNTIME: &str = "RUNTIME_DIRECTORY";

fn plan(wish: &DeviceWish<'_>) -> Result<TargetPlan, String> {
    let nqn = format!("nqn.2014-08.org.nvmexpress:uuid:{}", wish.name);
    let config = format!("{}/config", wish.directory);
    let bytes = match wish.device {
        PeerDevice::Ram(bytes) => *bytes,
        PeerDevice::Null(_) | PeerDevice::File { .. } => 0,
    };
    let memory = (BUFFERS_MIB + (bytes >> 20)).to_string();
    // Without huge pages, and without files outside of its directory: locks of cores, traces.
    let mut command = words(&["nvmf_tgt", "--config", &config, "--no-rpc-server"]);
    command.extend(words(&["--no-huge", "--mem-size", &memory, "--no-pci"]));
    command.extend(words(&["--disable-cpumask-locks", "--num-trace-entries", "0"]));
    command.extend(words(&["--cpumask", &cores(wish.cpus)]));
    Ok(TargetPlan {
        command,
        environment: vec![(RUNTIME, wish.directory.to_owned())],
        files: vec![("config", configuration(wish, &nqn)?)],
        url: format!("nvme+tcp://{}/{nqn}", wish.address),
        polls: true,
        ..TargetPlan::default()
    })
}

/// Cores as SPDK takes them: `[0,2]`. One of its choice would be its default, the first.
pub fn cores(cpus: &[usize]) -> String {
    let cpus = if cpus.is_empty() { weft_io::cpu::allowed() } else { cpus.to_vec() };
    let all: Vec<String> = cpus.iter().map(usize::to_string).collect();
    format!("[{}]", all.join(","))
}

/// Its configuration: the transport has SPDK's defaults.
fn configuration(wish: &DeviceWish<'_>, nqn: &str) -> Result<String, String> {
    let call = |method: &str, params: Value| json!({ "method": method, "params": params });
    let blocks = |bytes: u64| bytes / BLOCK_BYTES;
    let disk = match wish.device {
        PeerDevice::Ram(bytes) => call(
            "bdev_malloc_create",
            json!({ "name": "disk", "num_blocks": blocks(*bytes), "block_size": BLOCK_BYTES }),
        ),
        PeerDevice::Null(bytes) => call(
            "bdev_null_create",
            json!({ "name": "disk", "num_blocks": blocks(*bytes), "block_size": BLOCK_BYTES }),
        ),
        PeerDevice::File { path, direct: true } => call(
            "bdev_aio_create",
            json!({ "name": "disk", "filename": path, "block_size": BLOCK_BYTES }),
        ),
        PeerDevice::File { .. } => {
            return Err(
                "SPDK reads and writes past the page cache: leave direct=off out".to_owned()
            );
        }
    };
    let family = if wish.address.is_ipv4() { "IPv4" } else { "IPv6" };
    let (ip, port) = (wish.address.ip().to_string(), wish.address.port().to_string());
    let place = json!({ "trtype": "TCP", "adrfam": family, "traddr": ip, "trsvcid": port });
    let space = json!({ "nsid": 1, "bdev_name": "disk" });
    let nvmf = [
        call("nvmf_create_transport", json!({ "trtype": "TCP" })),
        call("nvmf_create_subsystem", json!({ "nqn": nqn, "allow_any_host": true })),
        call("nvmf_subsystem_add_ns", json!({ "nqn": nqn, "namespace": space })),
        call("nvmf_subsystem_add_listener", json!({ "nqn": nqn, "listen_address": place })),
    ];
    let all = json!({ "subsystems": [
        { "subsystem": "bdev", "config": [disk] },
        { "subsystem": "nvmf", "config": nvmf },
    ] });
    Ok(all.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wish(device: &PeerDevice) -> DeviceWish<'_> {
        DeviceWish {
            device,
            memory: "/memory",
            address: "127.0.0.1:4421".parse().unwrap(),
            directory: "/d",
            name: "n",
            cpus: &[0, 2],
        }
    }

    #[test]
    fn each_device_has_its_configuration() {
        let file = PeerDevice::File { path: "/d/a,\"b".into(), direct: true };
        let cases = [
            (PeerDevice::Ram(4096), "bdev_malloc_create", json!(8)),
            (PeerDevice::Null(8192), "bdev_null_create", json!(16)),
            (file, "bdev_aio_create", Value::Null),
        ];
        for (device, method, blocks) in cases {
            let plan = plan(&wish(&device)).unwrap();
            assert_eq!(plan.url, "nvme+tcp://127.0.0.1:4421/nqn.2014-08.org.nvmexpress:uuid:n");
            assert_eq!(plan.command.last().map(String::as_str), Some("[0,2]"));
            let all: Value = serde_json::from_str(&plan.files[0].1).unwrap();
            let disk = &all["subsystems"][0]["config"][0];
            assert_eq!((&disk["method"], &disk["params"]["num_blocks"]), (&json!(method), &blocks));
            let listens = &all["subsystems"][1]["config"][3]["params"]["listen_address"];
            assert_eq!(
                (&listens["traddr"], &listens["trsvcid"]),
                (&json!("127.0.0.1"), &json!("4421"))
            );
        }
        let cached = PeerDevice::File { path: "/d/a".into(), direct: false };
        assert!(plan(&wish(&cached)).unwrap_err().contains("direct=off"));
    }
}
