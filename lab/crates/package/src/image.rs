//! An image for containers: the program, the libraries that it needs, and nothing else.
//!
//! The archive is an OCI image layout and has the `manifest.json` of `docker save` as well, so that
//! Docker, podman, buildah and skopeo read it. The libraries are those of this machine, which has to
//! be a Debian or Ubuntu: the packages tell versions and licences.

use std::{
    collections::BTreeSet,
    fs,
    os::unix::fs::{PermissionsExt, symlink},
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};
use xtask::{VERSION, built::FULL, sh};

use super::{archive, bom, notices, staged};

/// Who the processes of the image are: nobody of the machine.
const USER: &str = "65532";
/// Directories that it may write to.
const OWN: [&str; 2] = ["run/weft", "var/lib/weft"];
/// Where licences and the list of parts are.
const DOC: &str = "usr/share/doc/weft";
/// Loaded when TLS is used, and so not among what the program says that it needs.
const OPENSSL: &str = "libssl.so.3";
/// Ports of NVMe/TCP, its discovery, iSCSI and NBD.
const PORTS: [&str; 4] = ["4420/tcp", "8009/tcp", "3260/tcp", "10809/tcp"];
/// Nanoseconds of a second, in which health checks count.
const SECOND: u64 = 1_000_000_000;

/// Packs a program; where the archive is.
pub fn pack(program: &Path, out: &Path) -> Result<PathBuf> {
    lab_host::require(&["dpkg", "libssl3", "tar"])?;
    let root = out.join("image-root");
    let packages = stage(program, &root)?;
    let layout = out.join("image-layout");
    remove(&layout)?;
    let blobs = layout.join("blobs/sha256");
    fs::create_dir_all(&blobs)?;
    let layer = out.join("image-layer.tar");
    write_layer(&root, &layer)?;
    let (layer, bytes) = (add(&blobs, &fs::read(&layer)?)?, fs::metadata(&layer)?.len());
    let config = configuration(&layer, &packages)?;
    let config = (add(&blobs, config.as_bytes())?, config.len());
    let manifest = json!({
        "schemaVersion": 2,
        "mediaType": "application/vnd.oci.image.manifest.v1+json",
        "config": descriptor("application/vnd.oci.image.config.v1+json", &config.0, config.1 as u64),
        "layers": [descriptor("application/vnd.oci.image.layer.v1.tar", &layer, bytes)],
    });
    let manifest = manifest.to_string();
    let media = "application/vnd.oci.image.manifest.v1+json";
    let mut described =
        descriptor(media, &add(&blobs, manifest.as_bytes())?, manifest.len() as u64);
    described["annotations"] = json!({ "org.opencontainers.image.ref.name": VERSION });
    let index = json!({ "schemaVersion": 2, "manifests": [described] });
    fs::write(layout.join("index.json"), index.to_string())?;
    fs::write(layout.join("oci-layout"), json!({ "imageLayoutVersion": "1.0.0" }).to_string())?;
    let of_docker = json!([{
        "Config": format!("blobs/sha256/{}", config.0),
        "RepoTags": [format!("weft:{VERSION}")],
        "Layers": [format!("blobs/sha256/{layer}")],
    }]);
    fs::write(layout.join("manifest.json"), of_docker.to_string())?;
    let made = out.join(format!("weft-{VERSION}-image-{}.tar", std::env::consts::ARCH));
    remove(&made)?;
    append(&made, &layout, "0", &[])?;
    for scratch in [root, layout, out.join("image-layer.tar")] {
        remove(&scratch)?;
    }
    Ok(made)
}

/// Puts the program and what it needs below `root`; the packages of what it needs.
fn stage(program: &Path, root: &Path) -> Result<Vec<Package>> {
    remove(root)?;
    for directory in ["usr/bin", "usr/lib64", "etc", DOC, "tmp"].into_iter().chain(OWN) {
        fs::create_dir_all(root.join(directory))?;
    }
    symlink("usr/lib", root.join("lib"))?;
    symlink("usr/lib64", root.join("lib64"))?;
    fs::copy(program, root.join("usr/bin/weft"))?;
    let libraries = libraries(program)?;
    let mut packages = BTreeSet::new();
    for library in &libraries {
        let place = root.join(place_of(library));
        fs::create_dir_all(place.parent().context("a library is in a directory")?)?;
        fs::copy(library, place)?;
        packages.insert(package_of(library)?);
    }
    let passwd = format!("weft:x:{USER}:{USER}:weft:/var/lib/weft:/sbin/nologin\n");
    fs::write(root.join("etc/passwd"), passwd)?;
    fs::write(root.join("etc/group"), format!("weft:x:{USER}:\n"))?;
    let doc = root.join(DOC);
    let metadata = notices::metadata(&staged::host()?, &[FULL])?;
    let text = notices::of_program(&metadata, &staged::standard_library()?)?;
    fs::write(doc.join("LICENCES.txt"), text)?;
    for name in ["LICENSE-APACHE", "LICENSE-MIT"] {
        fs::copy(sh::root().join(name), doc.join(name))?;
    }
    for package in &packages {
        let copyright = Path::new("/usr/share/doc").join(&package.name).join("copyright");
        let to = doc.join(format!("copyright-{}", package.name));
        fs::copy(&copyright, to).with_context(|| format!("cannot read {}", copyright.display()))?;
    }
    let packages: Vec<Package> = packages.into_iter().collect();
    let others = packages.iter().map(Package::component);
    fs::write(doc.join("weft.cdx.json"), bom::with_others(&metadata, others)?)?;
    staged::set_modes(root)?;
    let mode =
        |path: &Path, mode| fs::set_permissions(root.join(path), fs::Permissions::from_mode(mode));
    for library in &libraries {
        // The loader is a program.
        mode(&place_of(library), 0o755)?;
    }
    mode(Path::new("usr/bin/weft"), 0o755)?;
    mode(Path::new("run/weft"), 0o700)?;
    mode(Path::new("tmp"), 0o1777)?;
    Ok(packages)
}

/// A package of the system that a library is of.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct Package {
    name: String,
    version: String,
}

impl Package {
    fn component(&self) -> Value {
        json!({
            "type": "library",
            "name": self.name,
            "version": self.version,
            "purl": format!("pkg:deb/debian/{}@{}", self.name, self.version),
        })
    }
}

/// The libraries that a program is linked with, the loader among them, and OpenSSL with its own.
fn libraries(program: &Path) -> Result<BTreeSet<PathBuf>> {
    let cache = sh::output(Command::new("/sbin/ldconfig").arg("-p"))?;
    let openssl = cache
        .lines()
        .filter(|line| line.trim_start().starts_with(OPENSSL))
        .find_map(|line| line.split(" => ").nth(1))
        .with_context(|| format!("there is no {OPENSSL} on this machine"))?;
    let mut found = BTreeSet::from([PathBuf::from(openssl)]);
    for file in [program, Path::new(openssl)] {
        let said = sh::output(Command::new("ldd").arg(file))?;
        let paths = said.split_whitespace().filter(|word| word.starts_with('/'));
        found.extend(paths.map(PathBuf::from));
    }
    ensure!(!found.iter().any(|path| path == program), "ldd lists the program among its libraries");
    Ok(found)
}

/// Where a library is in the image, in which `/lib` is a link to `/usr/lib`.
fn place_of(library: &Path) -> PathBuf {
    let below = library.strip_prefix("/usr").or_else(|_| library.strip_prefix("/"));
    Path::new("usr").join(below.unwrap_or(library))
}

/// The package that a file is of, which may name it below `/usr` or not.
fn package_of(library: &Path) -> Result<Package> {
    let in_usr = Path::new("/").join(place_of(library));
    let other = Path::new("/").join(in_usr.strip_prefix("/usr")?);
    let real = library.canonicalize()?;
    let search = |place: &Path| {
        let asked = Command::new("dpkg-query").arg("--search").arg(place).output();
        asked.ok().filter(|output| output.status.success())
    };
    let found = [library, &in_usr, &other, &real].into_iter().find_map(search);
    let found = found.with_context(|| format!("no package has {}", library.display()))?;
    let line = String::from_utf8(found.stdout)?;
    let name = line.split([':', ',']).next().context("dpkg-query names a package")?.trim();
    let show = ["--show", "--showformat=${Version}", name];
    let version = sh::output(Command::new("dpkg-query").args(show))?;
    Ok(Package { name: name.to_owned(), version: version.trim().to_owned() })
}

/// The layer: everything is root's, but the directories of the user.
fn write_layer(root: &Path, layer: &Path) -> Result<()> {
    remove(layer)?;
    let without: Vec<String> = OWN.iter().map(|own| format!("--exclude=./{own}")).collect();
    append(layer, root, "0", &without)?;
    let mut tar = tar(layer, root, USER)?;
    sh::run(tar.args(OWN.map(|own| format!("./{own}"))))
}

/// Puts all of a directory into a tar.
fn append(archive: &Path, directory: &Path, owner: &str, options: &[String]) -> Result<()> {
    sh::run(tar(archive, directory, owner)?.args(options).arg("."))
}

/// `tar` that appends files of a directory, without what is of this machine and this day.
fn tar(archive: &Path, directory: &Path, owner: &str) -> Result<Command> {
    let mut tar = Command::new("tar");
    tar.args(["--sort=name", "--numeric-owner", "--format=ustar", "--append"]);
    tar.args([format!("--owner={owner}"), format!("--group={owner}")]);
    tar.arg(format!("--mtime=@{}", archive::commit_seconds()?));
    // Relative to where the files are.
    tar.arg("--file").arg(std::path::absolute(archive)?).arg("--directory").arg(directory);
    Ok(tar)
}

/// Adds a blob; its digest.
fn add(blobs: &Path, bytes: &[u8]) -> Result<String> {
    let fresh = blobs.join("fresh");
    fs::write(&fresh, bytes)?;
    let said = sh::output(Command::new("sha256sum").arg("--").arg(&fresh))?;
    let digest = said.split_whitespace().next().context("sha256sum tells a sum")?.to_owned();
    fs::rename(&fresh, blobs.join(&digest))?;
    fs::set_permissions(blobs.join(&digest), PermissionsExt::from_mode(0o644))?;
    Ok(digest)
}

fn descriptor(media: &str, digest: &str, bytes: u64) -> Value {
    json!({ "mediaType": media, "digest": format!("sha256:{digest}"), "size": bytes })
}

/// How it is run.
fn configuration(layer: &str, packages: &[Package]) -> Result<String> {
    let created = sh::output(
        Command::new("date")
            .args(["--utc", "+%Y-%m-%dT%H:%M:%SZ", "--date"])
            .arg(format!("@{}", archive::commit_seconds()?)),
    )?;
    let architecture = sh::output(Command::new("dpkg").arg("--print-architecture"))?;
    let libraries: Vec<String> =
        packages.iter().map(|of| format!("{} {}", of.name, of.version)).collect();
    let ports: Value = PORTS.iter().map(|port| ((*port).to_owned(), json!({}))).collect();
    let config = json!({
        "created": created.trim(),
        "architecture": architecture.trim(),
        "os": "linux",
        "config": {
            "User": format!("{USER}:{USER}"),
            "Env": ["PATH=/usr/bin", "WEFT_RUNTIME_DIR=/run/weft", "WEFT_STATE_DIR=/var/lib/weft"],
            "Entrypoint": ["/usr/bin/weft", "serve", "--control", "weft"],
            "Cmd": ["--help"],
            "WorkingDir": "/var/lib/weft",
            "Volumes": { "/var/lib/weft": {} },
            "ExposedPorts": ports,
            "StopSignal": "SIGTERM",
            "Healthcheck": {
                "Test": ["CMD", "/usr/bin/weft", "status", "--control", "weft"],
                "Interval": 10 * SECOND,
                "Timeout": 5 * SECOND,
                "StartPeriod": 60 * SECOND,
                "Retries": 3,
            },
            "Labels": {
                "org.opencontainers.image.title": "weft",
                "org.opencontainers.image.version": VERSION,
                "org.opencontainers.image.licenses": "Apache-2.0 OR MIT",
                "weft.libraries": libraries.join(", "),
            },
        },
        "rootfs": { "type": "layers", "diff_ids": [format!("sha256:{layer}")] },
        "history": [{ "created": created.trim(), "created_by": "cargo xtask package linux image" }],
    });
    Ok(config.to_string())
}

/// Removes a file or directory, if it is there.
fn remove(path: &Path) -> Result<()> {
    match path {
        _ if path.is_dir() => fs::remove_dir_all(path)?,
        _ if path.exists() => fs::remove_file(path)?,
        _ => {}
    }
    Ok(())
}
