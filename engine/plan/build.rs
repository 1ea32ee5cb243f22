//! Lists `scenarios/*.toml`, so that adding a scenario adds a file and no code.

use std::error::Error;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::{env, fs};

fn main() -> Result<(), Box<dyn Error>> {
    let directory = Path::new(&env::var("CARGO_MANIFEST_DIR")?).join("../../scenarios").canonicalize()?;
    println!("cargo::rerun-if-changed={}", directory.display());
    let mut files: Vec<PathBuf> = fs::read_dir(&directory)?
        .filter_map(|entry| entry.ok().map(|entry| entry.path()))
        .filter(|path| path.extension().is_some_and(|extension| extension == "toml"))
        .collect();
    files.sort();
    let mut code = String::from("&[\n");
    for file in files {
        let name = file.file_name().and_then(|name| name.to_str()).ok_or("a scenario's name is not UTF-8")?;
        writeln!(code, "    ({:?}, include_str!({:?})),", format!("scenarios/{name}"), file.display().to_string())?;
    }
    code.push_str("]\n");
    fs::write(Path::new(&env::var("OUT_DIR")?).join("scenarios.rs"), code)?;
    Ok(())
}
