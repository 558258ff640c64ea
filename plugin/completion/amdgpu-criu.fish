# SPDX-License-Identifier: GPL-2.0
# Completion of the command amdgpu-criu for fish. Commands and options come from the command itself,
# so that they always match it.

function __amdgpu_criu_subcommand
    set -l words (commandline -opc)
    set -l subcommand (string match -v -- '-*' $words[2..-1])
    test "$subcommand[1]" = snapshot; and printf '%s\n' $subcommand[1..2]; or printf '%s\n' $subcommand[1]
end

function __amdgpu_criu_words
    set -l words (commandline -opc)
    set -l subcommand (__amdgpu_criu_subcommand)
    # A line of CLI11's help that begins with a command or with options: "  check   Report what ...".
    $words[1] $subcommand --help 2>/dev/null | awk '
      /^[A-Z].*:$/ { section = $0 }
      section ~ /^(SUBCOMMANDS|Subcommands):$/ && /^  [a-z]/ { print $1 }
      /^  -/ { gsub(/,/, " "); for (i = 1; i <= NF && $i ~ /^-/; i++) print $i }'
end

function __amdgpu_criu_wants_directory
    set -l subcommand (__amdgpu_criu_subcommand)
    test (count $subcommand) -gt 0
    and test "$subcommand[-1]" != snapshot
    and not string match -q -- '-*' (commandline -ct)
end

complete -c amdgpu-criu -f
complete -c amdgpu-criu -n 'not __amdgpu_criu_wants_directory' -a '(__amdgpu_criu_words)'
complete -c amdgpu-criu -n __amdgpu_criu_wants_directory -a '(__fish_complete_directories)'
