# Completion of frit for bash.
_frit() {
  local word=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD-1]} command=${COMP_WORDS[1]}
  local script_options="--mode --device --compiler --flags --policy --timeout --help"
  local options=
  COMPREPLY=()
  case $before in
    --mode) COMPREPLY=($(compgen -W "eager automatic" -- "$word")); return ;;
    --device) COMPREPLY=($(compgen -W "cpu" -- "$word")); return ;;
    --compiler) COMPREPLY=($(compgen -c -- "$word")); return ;;
    --flags|--timeout|--seconds|--axis|--buckets|--runs|--limit|--only) return ;;
    --policy|--trace|--markdown|--baseline|--log|--dot|--html|--record|--keep|-o|--output) COMPREPLY=($(compgen -f -- "$word")); return ;;
  esac
  if [ "$COMP_CWORD" = 1 ]; then
    COMPREPLY=($(compgen -W "run bench tune explain report cache doctor --help --version" -- "$word"))
    return
  fi
  case $command in
    run) options="$script_options --trace --watch --verbose" ;;
    bench)
      options="$script_options --suite --only --seconds --json --markdown --baseline"
      if [[ " ${COMP_WORDS[*]} " == *" --suite "* && $word != -* ]]; then
        COMPREPLY=($(compgen -W "pointwise norm softmax gemm attention mlp transformer decode shapes" -- "$word"))
        return
      fi ;;
    tune) options="$script_options --axis --buckets --runs --output --log --random" ;;
    explain) options="$script_options --dot --html" ;;
    report) options="$script_options --output --record --keep --trace" ;;
    doctor) COMPREPLY=($(compgen -W "--settings --quick --json --help" -- "$word")); return ;;
    cache)
      if [ "$COMP_CWORD" = 2 ]; then COMPREPLY=($(compgen -W "list verify prune --help" -- "$word"))
      elif [ "${COMP_WORDS[2]}" = prune ]; then COMPREPLY=($(compgen -W "--limit --all --help" -- "$word")); fi
      return ;;
  esac
  if [[ $word == -* ]]; then COMPREPLY=($(compgen -W "$options" -- "$word"))
  else COMPREPLY=($(compgen -f -- "$word")); fi
}
complete -o filenames -F _frit frit
