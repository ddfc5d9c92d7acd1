# bash completion of daiv-sandbox(8)
# shellcheck shell=bash

# Ids of sessions, asked of the daemon: root alone gets an answer.
_daiv_sandbox_sessions() {
  daiv-sandbox ps --json 2>/dev/null | sed -n 's/^ *"\(session_id\|id\)": "\([^"]*\)".*/\2/p'
}

_daiv_sandbox() {
  local word=${COMP_WORDS[COMP_CWORD]} previous=${COMP_WORDS[COMP_CWORD - 1]} choices=
  COMPREPLY=()
  if [ "$COMP_CWORD" -eq 1 ]; then
    choices='broker ca doctor egress exec images load prune ps pull rm serve settings version --help'
  else
    case ${COMP_WORDS[1]} in
      pull | images | ps | doctor | version) choices='--json --help' ;;
      prune) choices='--all --json --help' ;;
      settings) choices='--json --markdown --help' ;;
      serve | broker) choices='--help' ;;
      rm) choices="--stop --help $(_daiv_sandbox_sessions)" ;;
      load)
        choices='--json --help'
        mapfile -t COMPREPLY < <(compgen -f -- "$word")
        ;;
      exec)
        [ "$previous" = --timeout ] || choices="--timeout --help $(_daiv_sandbox_sessions)"
        ;;
      egress)
        if [ "$COMP_CWORD" -eq 2 ]; then
          choices='log --help'
        else
          choices="--json --no-follow --help $(_daiv_sandbox_sessions)"
        fi
        ;;
      ca)
        if [ "$COMP_CWORD" -eq 2 ]; then
          choices='init repair check --help'
        elif [ "$previous" = --cert ] || [ "$previous" = --key ]; then
          mapfile -t COMPREPLY < <(compgen -f -- "$word")
        else
          choices='--cert --key --help'
        fi
        ;;
    esac
  fi
  local matches
  mapfile -t matches < <(compgen -W "$choices" -- "$word")
  COMPREPLY+=("${matches[@]}")
}
complete -o filenames -F _daiv_sandbox daiv-sandbox
