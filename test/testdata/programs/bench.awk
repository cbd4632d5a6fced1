# Fields, associative arrays, substitution, printf.
{
	for (i = 1; i <= NF; i++) count[$i]++
	sub(/a+/, "<&>"); gsub(/[0-9]+/, "#"); length_ += length($0)
	if (match($0, /q[a-z]/)) matched += RSTART
}
END {
	for (w in count) { words++; if (count[w] > most) most = count[w] }
	printf "%d lines, %d words, %d times, %d %d %.4f %s\n", NR, words, most, length_, matched, sin(NR), toupper(substr("tail", 2))
	exit 5
}
