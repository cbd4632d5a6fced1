package narrow

import (
	"testing"
	"unicode/utf8"
)

func TestName(t *testing.T) {
	const vector = "std::vector<std::pair<int, std::string>, std::allocator<std::pair<int, std::string> > >::push_back(std::pair<int, std::string> const&)"
	for _, row := range []struct {
		name    string
		columns int
		want    string
	}{
		{"main", 4, "main"},
		{vector, 200, vector},
		{vector, 110, "std::vector<std::pair<…>, std::allocator<…> >::push_back(std::pair<int, std::string> const&)"},
		{vector, 85, "std::vector<…>::push_back(std::pair<…> const&)"},
		{vector, 60, "std::vector<…>::push_back(std::pair<…> const&)"},
		{vector, 30, "std::vector<…>::push_back(…)"},
		{vector, 20, "…or<…>::push_back(…)"},
		{vector, 1, "…or<…>::push_back(…)"},
		{"std::ostream& operator<< <char>(std::basic_ostream<char, std::char_traits<char> >&)", 40, "std::ostream& operator<< <…>(…)"},
		{"T* Ptr<T>::operator->() const", 22, "…>::operator->() const"},
		{"bool operator<=(A const&, B const&)", 25, "bool operator<=(…)"},
		{"a<b>c<d>>>::f", 20, "a<b>c<d>>>::f"},
		{"a_function_of_c_with_a_long_name", 20, "a_function_of_c_wit…"},
		{"eine_größere_Größe_für_alle", 20, "eine_größere_Größe_…"},
	} {
		got := Name(row.name, row.columns)
		if got != row.want || utf8.RuneCountInString(got) > max(row.columns, least) {
			t.Errorf("%d: %s\nwant %s", row.columns, got, row.want)
		}
	}
}
