//! `tollgate completions SHELL`: a script that the shell takes, with every command in it.

use std::process::{Command, Output};

use crate::fixture::served::BINARY;

fn completions(shell: &str) -> Output {
    let mut command = Command::new(BINARY);
    command.args(["completions", shell]).output().unwrap()
}

#[test]
fn every_shell_gets_a_script_that_knows_the_commands_and_their_flags() {
    for shell in ["bash", "elvish", "fish", "powershell", "zsh"] {
        let output = completions(shell);
        assert!(output.status.success(), "{shell}: {output:?}");
        let script = String::from_utf8(output.stdout).unwrap();
        for word in ["dead-letters", "completions", "max-per-second"] {
            assert!(script.contains(word), "{shell}: no {word}");
        }
    }
    let output = completions("abacus");
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(!output.status.success());
    assert!(said.contains("abacus") && said.contains("bash"), "{said}");
}

#[test]
fn bash_completes_a_command_by_its_script() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("tollgate");
    std::fs::write(&file, completions("bash").stdout).unwrap();
    let asked = "source \"$1\"; COMP_WORDS=(tollgate dead-letters re) COMP_CWORD=2
        _tollgate tollgate re dead-letters; echo \"${COMPREPLY[*]}\"";
    let output = Command::new("bash")
        .args(["-c", asked, "bash"])
        .arg(&file)
        .output()
        .unwrap();
    assert!(output.status.success(), "{output:?}");
    assert_eq!(String::from_utf8(output.stdout).unwrap().trim(), "replay");
}
